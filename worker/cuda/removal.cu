// Steps of a removal of features (worker/kernels/removal_steps.h), one launch a step.
//
// A thread has one column of the step's row and change, from the matrices' rows of the removed
// feature and all past steps of the block. Every block of threads then writes the cheapest of its
// columns, and the next launch begins with the cheapest of these candidates. So a step needs no
// barrier between blocks, and the host no result.

#define THREADS 128
#define WARPS (THREADS / 32)
#define STEPS 64
#define REMOVED (__longlong_as_double(0x7ff0000000000000ll))  // infinity

/// The cheapest feature of some columns.
struct Candidate {
  double cost;
  double column;  // a whole number
  double square;
};

struct Least {
  double cost;
  double column;
};

/// Returns the one of less cost, of equal ones that of the lower column.
__device__ __forceinline__ Least lesser(Least a, Least b) {
  return b.cost < a.cost || (b.cost == a.cost && b.column < a.column) ? b : a;
}

/// warps: shared memory.
__device__ __forceinline__ Least least_of_block(Least own, Least (&warps)[WARPS]) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const double cost = __shfl_xor_sync(0xffffffffu, own.cost, offset);
    const double column = __shfl_xor_sync(0xffffffffu, own.column, offset);
    own = lesser(own, {cost, column});
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = own;
  __syncthreads();
  own = warps[0];
#pragma unroll
  for (int warp = 1; warp < WARPS; ++warp) own = lesser(own, warps[warp]);
  __syncthreads();
  return own;
}

/// Writes the block's candidate. Columns from n on have no feature.
__device__ __forceinline__ void write_candidate(double square, double diagonal, int n,
                                                Candidate* candidates, Least (&warps)[WARPS]) {
  const int column = blockIdx.x * THREADS + threadIdx.x;
  Least own = {REMOVED, n - 1.0};
  if (column < n) own = {square / diagonal, static_cast<double>(column)};
  const Least least = least_of_block(own, warps);
  if (column < n && column == static_cast<int>(least.column)) {
    candidates[blockIdx.x] = {least.cost, least.column, square};
  }
}

/// candidates: one of each block. The same grid as that of removal_step.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    removal_candidates(const double* __restrict__ squares, const double* __restrict__ diagonal,
                       Candidate* __restrict__ candidates, int n) {
  __shared__ Least warps[WARPS];
  const int column = min(blockIdx.x * THREADS + threadIdx.x, n - 1u);
  write_candidate(squares[column], diagonal[column], n, candidates, warps);
}

/// Step number `step` of a block, at most STEPS - 1. inverse, products: [n, n]; squares, diagonal:
/// [n], updated; rows, changes: [steps, n]; costs, removed: [steps]; candidates: those of the last
/// launch; next: those of this one.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    removal_step(const double* __restrict__ inverse, const double* __restrict__ products,
                 double* __restrict__ squares, double* __restrict__ diagonal, double* rows,
                 double* changes, double* __restrict__ costs, long long* __restrict__ removed,
                 const Candidate* __restrict__ candidates, Candidate* __restrict__ next, int n,
                 int step) {
  __shared__ Least warps[WARPS];
  __shared__ double row_parts[STEPS];
  __shared__ double change_parts[STEPS];
  Least least = {REMOVED, n - 1.0};
  for (unsigned int i = threadIdx.x; i < gridDim.x; i += THREADS) {
    least = lesser(least, {candidates[i].cost, candidates[i].column});
  }
  least = least_of_block(least, warps);
  const int feature = static_cast<int>(least.column);
  const double feature_square = candidates[feature / THREADS].square;
  for (int s = threadIdx.x; s < step; s += THREADS) {
    row_parts[s] = rows[static_cast<long long>(s) * n + feature];
    change_parts[s] = changes[static_cast<long long>(s) * n + feature];
  }
  __syncthreads();
  double past = 0.0;
  for (int s = threadIdx.x % 32; s < step; s += 32) past += row_parts[s] * row_parts[s];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    past += __shfl_xor_sync(0xffffffffu, past, offset);
  }
  const long long start = static_cast<long long>(feature) * n;
  const double pivot_square = inverse[start + feature] - past;
  const double pivot = sqrt(pivot_square);

  const int column = blockIdx.x * THREADS + threadIdx.x;
  double square = 0.0;
  double of_diagonal = 1.0;
  if (column < n) {
    double row = inverse[start + column];
    double change = products[start + column];
#pragma unroll 8
    for (int s = 0; s < step; ++s) {
      const double past_row = rows[static_cast<long long>(s) * n + column];
      const double past_change = changes[static_cast<long long>(s) * n + column];
      row -= past_row * row_parts[s];
      change -= past_change * row_parts[s] + past_row * change_parts[s];
    }
    row /= pivot;
    change = change / pivot - row * (feature_square / (2.0 * pivot_square));
    rows[static_cast<long long>(step) * n + column] = row;
    changes[static_cast<long long>(step) * n + column] = change;
    const bool is_removed = column == feature;
    square = is_removed ? REMOVED : squares[column] - 2.0 * row * change;
    of_diagonal = is_removed ? 1.0 : diagonal[column] - row * row;
    squares[column] = square;
    diagonal[column] = of_diagonal;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    costs[step] = least.cost;
    removed[step] = feature;
  }
  write_candidate(square, of_diagonal, n, next, warps);
}
