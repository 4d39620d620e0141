// Computes cost[i, j] += sum over t of |x[t, i] - x[t, j]|, by tiles of the upper triangle.
//
// The numbers are rounded to fixed point, so that a pair takes one instruction: VABSDIFF adds the
// absolute difference of two integers to a third. A multiprocessor has 64 lanes for it. In float32
// a pair takes two additions.
//
// A block of threads computes one tile of TILE x TILE pairs of channels, like a matrix product.
// STAGE tokens of its two panels are in shared memory while the next ones are loaded. Each thread
// holds the sums of 8 x 8 pairs. Integer sums are exact. Those of TOKENS_PER_FLUSH tokens go to
// float64, by atomic additions, because no thread waits for those. No two threads add to the same
// number, and each adds its tokens in order, so the result is the same in every run.
//
// Two blocks share a multiprocessor. That leaves 128 registers a thread, and nearly all are used.
// Rarely needed values are computed again, and half a stage is unrolled.

#define TILE 128
#define STAGE 8
#define TOKENS_PER_FLUSH 512
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

/// Returns the exponent s of the fixed point that takes x for the integer next to 2^s x. `largest`:
/// the largest magnitude of x. Integers are less than 2^22, so differences are less than 2^23, and
/// sums of TOKENS_PER_FLUSH differences less than 2^32. 2^-s is at most 2^-21 `largest`, except
/// below 2^-106, where 2^s would not be a float32 number.
__device__ __forceinline__ int fixed_point(float largest) {
  // The addition carries numbers that would be rounded to 2^22 to the next exponent.
  const unsigned int exponent = (__float_as_uint(largest) + 2) >> 23;
  return min(148 - static_cast<int>(exponent), 127);
}

/// Returns the integer next to scale * x, plus a constant, in one instruction: float32 numbers from
/// 2^23 to 2^24 are integers, and so are the bits that represent them. `scale`: 2^s.
__device__ __forceinline__ int to_fixed_point(float x, float scale) {
  return __float_as_int(fmaf(x, scale, 0x1.8p23f));
}

__device__ __forceinline__ void read8(const int* panel, int thread, int (&values)[8]) {
  const int4 low = *reinterpret_cast<const int4*>(panel + thread * 4);
  const int4 high = *reinterpret_cast<const int4*>(panel + TILE / 2 + thread * 4);
  values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
  values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
}

/// One thread's part in loading STAGE tokens of a tile's two panels into shared memory.
struct Load {
  static constexpr int kTokens = THREADS / TILE;   // tokens that the block loads at once
  static constexpr int kValues = STAGE / kTokens;  // values of each panel

  // Tokens beyond the last one are zero and add nothing to a sum. Channels beyond the last one
  // repeat it; their sums are discarded.
  __device__ __forceinline__ void start(const float* x, int first, int tokens, int width,
                                        TileIndex tile) {
    const int lane = threadIdx.x % TILE;
    const int row = min(tile.p * TILE + lane, width - 1);
    const int column = min(tile.q * TILE + lane, width - 1);
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      const int token = first + threadIdx.x / TILE + i * kTokens;
      const long long start = static_cast<long long>(token) * width;
      row_values[i] = token < tokens ? x[start + row] : 0.0f;
      column_values[i] = token < tokens ? x[start + column] : 0.0f;
    }
  }

  __device__ __forceinline__ void finish(int (&rows)[STAGE][TILE], int (&columns)[STAGE][TILE],
                                         float scale) const {
    const int lane = threadIdx.x % TILE;
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      const int t = threadIdx.x / TILE + i * kTokens;
      rows[t][lane] = to_fixed_point(row_values[i], scale);
      columns[t][lane] = to_fixed_point(column_values[i], scale);
    }
  }

  float row_values[kValues];
  float column_values[kValues];
};

/// Adds a thread's sums to the cost, and resets them.
__device__ __forceinline__ void flush(unsigned int (&sums)[8][8], float largest, double* cost,
                                      int width, TileIndex tile) {
  int thread = threadIdx.x;
  // Without this the compiler would keep all addresses in registers from one flush to the next.
  asm volatile("" : "+r"(width), "+r"(thread));
  // The difference is zero, or NaN if `largest` is not finite.
  const double unit =
      __hiloint2double((1023 - fixed_point(largest)) << 20, 0) + (largest - largest);
  const int rows = width - tile.p * TILE;  // at least TILE, except at the edge
  const int columns = width - tile.q * TILE;
  double* out = cost + static_cast<long long>(tile.p) * TILE * width + tile.q * TILE;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = channel(thread_row(thread), i);
    double* line = out + static_cast<long long>(row) * width;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int column = channel(thread_column(thread), j);
      if (row < rows && column < columns) atomicAdd(line + column, unit * sums[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) sums[i][j] = 0;
  }
}

/// x: [tokens, width]; largest: the largest magnitude of x; cost: [width, width], updated in the
/// tiles on and above the diagonal, with NaN if `largest` is not finite. One block of THREADS
/// threads per tile.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    l1_cost(const float* __restrict__ x, const float* __restrict__ largest,
            double* __restrict__ cost, int tokens, int width) {
  alignas(16) __shared__ int rows[2][STAGE][TILE];
  alignas(16) __shared__ int columns[2][STAGE][TILE];
  const TileIndex tile = tile_of(blockIdx.x);
  const float scale = __int_as_float((127 + fixed_point(*largest)) << 23);
  Load load;
  unsigned int sums[8][8] = {};
  load.start(x, 0, tokens, width, tile);
  load.finish(rows[0], columns[0], scale);
  __syncthreads();
  int buffer = 0;
  for (int first = 0; first < tokens; first += STAGE) {
    const bool more = first + STAGE < tokens;
    if (more) load.start(x, first + STAGE, tokens, width, tile);
#pragma unroll 4
    for (int t = 0; t < STAGE; ++t) {
      int a[8];
      int b[8];
      read8(rows[buffer][t], thread_row(threadIdx.x), a);
      read8(columns[buffer][t], thread_column(threadIdx.x), b);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[i][j] = __sad(a[i], b[j], sums[i][j]);
      }
    }
    buffer ^= 1;
    if (more) load.finish(rows[buffer], columns[buffer], scale);
    __syncthreads();
    if (!more || (first + STAGE) % TOKENS_PER_FLUSH == 0) flush(sums, *largest, cost, width, tile);
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
