// One Sinkhorn iteration on K = exp(alpha + beta - C/lambda), float64 [rows, columns], which is
// read once:
//
//   s = K v,   u' = row_marginal / s,   v' = column_marginal / (K^T u')
//
// A block of threads takes every gridDim.x-th row into registers, computes its sum, and with it
// adds the row to its share of the column sums. The next row is loaded meanwhile. v stays in the
// first cache. COLUMNS_PER_THREAD is set at compile time: columns <= COLUMNS_PER_THREAD * THREADS.
// The order of all sums depends on the grid alone.
//
// Several iterations are launched before the host looks at the first. An iteration does nothing if
// the one before it was the last.

#define THREADS 512
#define WARPS (THREADS / 32)
#define COLUMNS 32  // columns of a block of sinkhorn_columns
#define PARTS 8     // threads that share the sum of a column
#define LARGEST_SCALING 1e100

/// Status of an iteration, zero before its first kernel. violation: l1 violation of the row
/// marginal by (u, v). out_of_range: nonzero if an entry of u' or v' is out of range or NaN.
/// skipped: nonzero if an earlier iteration was the last.
struct Status {
  double violation;
  double out_of_range;
  double skipped;
};

/// previous: status of the iteration before, or null.
__device__ __forceinline__ bool is_over(const Status* previous, double tolerance) {
  if (previous == nullptr) return false;
  return previous->skipped != 0.0 || previous->out_of_range != 0.0 ||
         previous->violation <= tolerance;
}

__device__ __forceinline__ bool in_range(double scaling) {
  return scaling >= 1 / LARGEST_SCALING && scaling <= LARGEST_SCALING;
}

/// partial_sums: [gridDim.x, columns], of K^T u'; partial_violations: [gridDim.x].
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    sinkhorn_rows(const double* __restrict__ K, const double* __restrict__ u,
                  const double* __restrict__ v, double* __restrict__ next_u,
                  double* __restrict__ partial_sums, double* __restrict__ partial_violations,
                  Status* status, const Status* previous, double tolerance, long long rows,
                  long long columns, double row_marginal) {
  __shared__ double warp_sums[2][WARPS];
  if (is_over(previous, tolerance)) {
    if (blockIdx.x == 0 && threadIdx.x == 0) status->skipped = 1.0;
    return;
  }
  const int columns_left = static_cast<int>(columns) - static_cast<int>(threadIdx.x);
  double sums[COLUMNS_PER_THREAD];
  double next[COLUMNS_PER_THREAD];
  const auto load = [&](long long row) {
    const double* line = K + row * columns + threadIdx.x;
#pragma unroll
    for (int c = 0; c < COLUMNS_PER_THREAD; ++c) {
      next[c] = row < rows && c * THREADS < columns_left ? __ldcs(line + c * THREADS) : 0.0;
    }
  };
#pragma unroll
  for (int c = 0; c < COLUMNS_PER_THREAD; ++c) sums[c] = 0.0;
  double violation = 0.0;
  int parity = 0;  // two sets of sums, so that one barrier per row is enough
  load(blockIdx.x);
  for (long long row = blockIdx.x; row < rows; row += gridDim.x, parity ^= 1) {
    double values[COLUMNS_PER_THREAD];
#pragma unroll
    for (int c = 0; c < COLUMNS_PER_THREAD; ++c) values[c] = next[c];
    load(row + gridDim.x);
    double sum = 0.0;
#pragma unroll
    for (int c = 0; c < COLUMNS_PER_THREAD; ++c) {
      if (c * THREADS < columns_left) sum += values[c] * v[c * THREADS + threadIdx.x];
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0) warp_sums[parity][threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) sum += warp_sums[parity][warp];
    const double row_scaling = row_marginal / sum;
#pragma unroll
    for (int c = 0; c < COLUMNS_PER_THREAD; ++c) sums[c] += values[c] * row_scaling;
    if (threadIdx.x == 0) {
      next_u[row] = row_scaling;
      violation += fabs(u[row] * sum - row_marginal);
      if (!in_range(row_scaling)) status->out_of_range = 1.0;
    }
  }
  double* part = partial_sums + blockIdx.x * columns + threadIdx.x;
#pragma unroll
  for (int c = 0; c < COLUMNS_PER_THREAD; ++c) {
    if (c * THREADS < columns_left) part[c * THREADS] = sums[c];
  }
  if (threadIdx.x == 0) partial_violations[blockIdx.x] = violation;
}

/// Computes v' from the partial sums of `parts` blocks. Blocks of COLUMNS x PARTS threads, one
/// block for COLUMNS columns. The first block adds up the violation.
extern "C" __global__ void __launch_bounds__(COLUMNS* PARTS)
    sinkhorn_columns(const double* __restrict__ partial_sums,
                     const double* __restrict__ partial_violations, double* __restrict__ next_v,
                     Status* status, const Status* previous, double tolerance, int parts,
                     long long columns, double column_marginal) {
  __shared__ double sums[PARTS][COLUMNS];
  __shared__ double violations[PARTS];
  if (is_over(previous, tolerance)) return;
  const long long column = static_cast<long long>(blockIdx.x) * COLUMNS + threadIdx.x;
  double sum = 0.0;
  if (column < columns) {
    for (int part = threadIdx.y; part < parts; part += PARTS) {
      sum += partial_sums[part * columns + column];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  if (blockIdx.x == 0) {
    double violation = 0.0;
    const int first = threadIdx.y * COLUMNS + threadIdx.x;
    for (int part = first; part < parts; part += COLUMNS * PARTS) {
      violation += partial_violations[part];
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      violation += __shfl_xor_sync(0xffffffffu, violation, offset);
    }
    if (threadIdx.x == 0) violations[threadIdx.y] = violation;
  }
  __syncthreads();
  if (threadIdx.y > 0) return;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    double violation = 0.0;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) violation += violations[part];
    status->violation = violation;
  }
  if (column >= columns) return;
  sum = 0.0;
#pragma unroll
  for (int part = 0; part < PARTS; ++part) sum += sums[part][threadIdx.x];
  const double scaling = column_marginal / sum;
  next_v[column] = scaling;
  if (!in_range(scaling)) status->out_of_range = 1.0;
}
