// Computes cost[i, j] += sum over t of |x[t, i] - x[t, j]|, by tiles of the upper triangle.
//
// A block of threads computes one tile of TILE x TILE pairs of channels, like a matrix product.
// STAGE tokens of its two panels are in shared memory while the next ones are loaded. Each thread
// holds the sums of 8 x 8 pairs. Float32 sums of TOKENS_PER_FLUSH tokens go to float64. A sum of
// that many terms has a relative error of at most 256/2 * 2^-24 if all terms are equal, 7.6e-6. In
// half precision a float32 sum has one term per stage, and half as many of them. No two threads
// write the same sum, and each adds its tokens in order, so the result is the same in every run.
//
// The subtraction and the addition of an absolute value are one FADD each; the absolute value is an
// operand modifier. In half precision an HADD2 does two pairs, and the sums of one stage go to
// float32.
//
// Two blocks share a multiprocessor. That leaves 128 registers a thread, and all of them are used.
// Rarely needed values are computed again, and a flush loads as many numbers at once as fit without
// local memory.

#include "half2.cuh"

#define TILE 128
#define STAGE 8
#define TOKENS_PER_FLUSH 256
#define HALF_TOKENS_PER_FLUSH 1024
#define THREADS 256

struct TileIndex {
  int p, q;
};

/// Returns tile number n of the upper triangle, column by column: (0,0), (0,1), (1,1), (0,2), ...
__device__ __forceinline__ TileIndex tile_of(int n) {
  int q = static_cast<int>((sqrtf(8.0f * static_cast<float>(n) + 1.0f) - 1.0f) * 0.5f);
  while (q * (q + 1) / 2 > n) --q;
  while ((q + 1) * (q + 2) / 2 <= n) ++q;
  return {n - q * (q + 1) / 2, q};
}

/// Row and column of a thread among the 16 x 16 threads of a tile. A warp covers 4 x 8 of them, so
/// that its reads of shared memory are few and free of conflicts.
__device__ __forceinline__ int thread_row(int thread) { return thread / 64 * 4 + thread % 32 / 8; }
__device__ __forceinline__ int thread_column(int thread) {
  return thread / 32 % 2 * 8 + thread % 8;
}

/// Channel i of a thread's eight channels of a panel: two runs of four.
__device__ __forceinline__ int channel(int thread, int i) {
  return (i / 4) * (TILE / 2) + thread * 4 + i % 4;
}

__device__ __forceinline__ void read8(const float* panel, int thread, float (&values)[8]) {
  const float4 low = *reinterpret_cast<const float4*>(panel + thread * 4);
  const float4 high = *reinterpret_cast<const float4*>(panel + TILE / 2 + thread * 4);
  values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
  values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
}

struct alignas(8) Pairs {
  Half2 first, second;
};

/// Stores a row value in shared memory. Float16 rows are stored twice, for two columns.
__device__ __forceinline__ void keep(float& row, float value) { row = value; }
__device__ __forceinline__ void keep(Pairs& row, Half2 value) {
  row = {twice(value & 0xffff), twice(value >> 16)};
}

/// One thread's part in loading STAGE tokens of a tile's two panels into shared memory. Value: a
/// channel, or two neighbouring ones in half precision.
template <class Value, int kChannels>
struct Load {
  static constexpr int kLanes = TILE / kChannels;
  static constexpr int kTokens = THREADS / kLanes;  // tokens that the block loads at once
  static constexpr int kValues = STAGE / kTokens;   // values of each panel

  // Tokens beyond the last one are zero and add nothing to a sum. Channels beyond the last one
  // repeat it; their sums are discarded. `stride`: values in a token.
  __device__ __forceinline__ void start(const Value* x, int first, int tokens, int stride,
                                        TileIndex tile) {
    const int lane = threadIdx.x % kLanes;
    const int row = min(tile.p * kLanes + lane, stride - 1);
    const int column = min(tile.q * kLanes + lane, stride - 1);
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      const int token = first + threadIdx.x / kLanes + i * kTokens;
      const long long start = static_cast<long long>(token) * stride;
      row_values[i] = token < tokens ? x[start + row] : Value(0);
      column_values[i] = token < tokens ? x[start + column] : Value(0);
    }
  }

  template <class Row>
  __device__ __forceinline__ void finish(Row (&rows)[STAGE][kLanes],
                                         Value (&columns)[STAGE][kLanes]) const {
    const int lane = threadIdx.x % kLanes;
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      const int t = threadIdx.x / kLanes + i * kTokens;
      keep(rows[t][lane], row_values[i]);
      columns[t][lane] = column_values[i];
    }
  }

  Value row_values[kValues];
  Value column_values[kValues];
};

/// Adds `unit` times a thread's sums to the cost, and resets them. column_of(thread column, j):
/// column of sums[.][j] in the tile. kLoads numbers are loaded before the first store, so that a
/// thread waits once for all of them.
template <int kLoads, class ColumnOf>
__device__ __forceinline__ void flush(float (&sums)[8][8], double unit, double* cost, int width,
                                      TileIndex tile, const ColumnOf& column_of) {
  int thread = threadIdx.x;
  // Without this the compiler would keep all addresses in registers from one flush to the next.
  asm volatile("" : "+r"(width), "+r"(thread));
  const int rows = width - tile.p * TILE;  // at least TILE, except at the edge
  const int columns = width - tile.q * TILE;
  double* out = cost + static_cast<long long>(tile.p) * TILE * width + tile.q * TILE;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = channel(thread_row(thread), i);
    double* line = out + static_cast<long long>(row) * width;
#pragma unroll
    for (int first = 0; first < 8; first += kLoads) {
      double loaded[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        const int column = column_of(thread_column(thread), first + j);
        loaded[j] = row < rows && column < columns ? line[column] : 0.0;
      }
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        const int column = column_of(thread_column(thread), first + j);
        if (row < rows && column < columns) line[column] = loaded[j] + unit * sums[i][first + j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) sums[i][j] = 0.0f;
  }
}

/// x: [tokens, width]; cost: [width, width], updated in the tiles on and above the diagonal. One
/// block of THREADS threads per tile.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    l1_cost_float(const float* __restrict__ x, double* __restrict__ cost, int tokens, int width) {
  alignas(16) __shared__ float rows[2][STAGE][TILE];
  alignas(16) __shared__ float columns[2][STAGE][TILE];
  const TileIndex tile = tile_of(blockIdx.x);
  Load<float, 1> load;
  float sums[8][8] = {};
  load.start(x, 0, tokens, width, tile);
  load.finish(rows[0], columns[0]);
  __syncthreads();
  int buffer = 0;
  for (int first = 0; first < tokens; first += STAGE) {
    const bool more = first + STAGE < tokens;
    if (more) load.start(x, first + STAGE, tokens, width, tile);
#pragma unroll
    for (int t = 0; t < STAGE; ++t) {
      float a[8];
      float b[8];
      read8(rows[buffer][t], thread_row(threadIdx.x), a);
      read8(columns[buffer][t], thread_column(threadIdx.x), b);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[i][j] += fabsf(a[i] - b[j]);
      }
    }
    buffer ^= 1;
    if (more) load.finish(rows[buffer], columns[buffer]);
    __syncthreads();
    if (!more || (first + STAGE) % TOKENS_PER_FLUSH == 0) {
      flush<4>(sums, 1.0, cost, width, tile, channel);
    }
  }
}

/// Float16 version of l1_cost_float. x: [tokens, 2 * stride]; channels from `width` on are ignored.
/// The sums are multiplied by `unit`, a power of two, so that x's scale is removed exactly. The
/// difference and the sums over one stage are float16: at most 2^-11 of each sum is lost at each of
/// its 9 roundings. Differences above 65504 / 8 = 8188 overflow to infinity.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    l1_cost_half(const Half2* __restrict__ x, double* __restrict__ cost, int tokens, int width,
                 int stride, double unit) {
  alignas(16) __shared__ Pairs rows[2][STAGE][TILE / 2];
  alignas(16) __shared__ Half2 columns[2][STAGE][TILE / 2];
  const TileIndex tile = tile_of(blockIdx.x);
  Load<Half2, 2> load;
  float sums[8][8] = {};
  load.start(x, 0, tokens, stride, tile);
  load.finish(rows[0], columns[0]);
  __syncthreads();
  int buffer = 0;
  for (int first = 0; first < tokens; first += STAGE) {
    const bool more = first + STAGE < tokens;
    if (more) load.start(x, first + STAGE, tokens, stride, tile);
    Half2 stage_sums[8][4] = {};
#pragma unroll
    for (int t = 0; t < STAGE; ++t) {
      const uint4 low =
          *reinterpret_cast<const uint4*>(&rows[buffer][t][thread_row(threadIdx.x) * 2]);
      const uint4 high =
          *reinterpret_cast<const uint4*>(&rows[buffer][t][TILE / 4 + thread_row(threadIdx.x) * 2]);
      const uint4 right =
          *reinterpret_cast<const uint4*>(&columns[buffer][t][thread_column(threadIdx.x) * 4]);
      const Half2 a[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
      const Half2 b[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          stage_sums[i][j] = add(stage_sums[i][j], abs_difference(a[i], b[j]));
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) add_to(sums[i][2 * j], sums[i][2 * j + 1], stage_sums[i][j]);
    }
    buffer ^= 1;
    if (more) load.finish(rows[buffer], columns[buffer]);
    __syncthreads();
    if (!more || (first + STAGE) % HALF_TOKENS_PER_FLUSH == 0) {
      // Float16 columns come in pairs, so eight neighbouring ones are flushed.
      flush<8>(sums, unit, cost, width, tile, [](int thread, int j) { return thread * 8 + j; });
    }
  }
}

#define MIRROR 32

/// Copies cost[j, i] = cost[i, j] for i < j. Blocks of MIRROR x 8 threads, one per MIRROR x MIRROR
/// tile of the matrix; those below the diagonal return at once.
extern "C" __global__ void __launch_bounds__(MIRROR * 8)
    mirror_upper_triangle(double* __restrict__ cost, int width) {
  __shared__ double values[MIRROR][MIRROR + 1];
  if (blockIdx.y > blockIdx.x) return;
  const int first_row = blockIdx.y * MIRROR;
  const int first_column = blockIdx.x * MIRROR;
  for (int i = threadIdx.y; i < MIRROR; i += 8) {
    const int row = first_row + i;
    const int column = first_column + threadIdx.x;
    if (row < width && column < width)
      values[i][threadIdx.x] = cost[static_cast<long long>(row) * width + column];
  }
  __syncthreads();
  for (int i = threadIdx.y; i < MIRROR; i += 8) {
    const int row = first_column + i;
    const int column = first_row + threadIdx.x;
    if (column < row && row < width)
      cost[static_cast<long long>(row) * width + column] = values[threadIdx.x][i];
  }
}
