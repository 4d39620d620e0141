// One Sinkhorn iteration on K = exp(alpha + beta - C/lambda), float64 [rows, columns], which is
// read once:
//
//   s = K v,   u' = row_marginal / s,   v' = column_marginal / (K^T u')
//
// A block of threads takes every gridDim.x-th row into registers, computes its sum, and with it
// adds the row to its share of the column sums. COLUMNS_PER_THREAD is set at compile time: columns
// <= COLUMNS_PER_THREAD * THREADS. The order of all sums depends on the grid alone.

#define THREADS 512
#define WARPS (THREADS / 32)
#define LARGEST_SCALING 1e100

/// Status of an iteration: two doubles, zero before the first kernel. violation: l1 violation of
/// the row marginal by (u, v). out_of_range: nonzero if an entry of u' or v' is out of range or
/// NaN.
struct Status {
  double violation;
  double out_of_range;
};

__device__ __forceinline__ bool in_range(double scaling) {
  return scaling >= 1 / LARGEST_SCALING && scaling <= LARGEST_SCALING;
}

/// partial_sums: [gridDim.x, columns], of K^T u'; partial_violations: [gridDim.x].
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    sinkhorn_rows(const double* __restrict__ K, const double* __restrict__ u,
                  const double* __restrict__ v, double* __restrict__ next_u,
                  double* __restrict__ partial_sums, double* __restrict__ partial_violations,
                  Status* status, long long rows, long long columns, double row_marginal) {
  __shared__ double warp_sums[2][WARPS];
  double scaling[COLUMNS_PER_THREAD];
  double sums[COLUMNS_PER_THREAD];
#pragma unroll
  for (int c = 0; c < COLUMNS_PER_THREAD; ++c) {
    const long long column = c * THREADS + threadIdx.x;
    scaling[c] = column < columns ? v[column] : 0.0;
    sums[c] = 0.0;
  }
  double violation = 0.0;
  int parity = 0;  // two sets of sums, so that one barrier per row is enough
  for (long long row = blockIdx.x; row < rows; row += gridDim.x, parity ^= 1) {
    double values[COLUMNS_PER_THREAD];
#pragma unroll
    for (int c = 0; c < COLUMNS_PER_THREAD; ++c) {
      const long long column = c * THREADS + threadIdx.x;
      values[c] = column < columns ? __ldcs(K + row * columns + column) : 0.0;
    }
    double sum = 0.0;
#pragma unroll
    for (int c = 0; c < COLUMNS_PER_THREAD; ++c) sum += values[c] * scaling[c];
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
#pragma unroll
  for (int c = 0; c < COLUMNS_PER_THREAD; ++c) {
    const long long column = c * THREADS + threadIdx.x;
    if (column < columns) partial_sums[blockIdx.x * columns + column] = sums[c];
  }
  if (threadIdx.x == 0) partial_violations[blockIdx.x] = violation;
}

/// Computes v' from the partial sums of `parts` blocks, one thread per column. The first thread
/// adds up the violation.
extern "C" __global__ void __launch_bounds__(128)
    sinkhorn_columns(const double* __restrict__ partial_sums,
                     const double* __restrict__ partial_violations, double* __restrict__ next_v,
                     Status* status, int parts, long long columns, double column_marginal) {
  const long long column = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column == 0) {
    double violation = 0.0;
    for (int part = 0; part < parts; ++part) violation += partial_violations[part];
    status->violation = violation;
  }
  if (column >= columns) return;
  double sum = 0.0;
  for (int part = 0; part < parts; ++part) sum += partial_sums[part * columns + column];
  const double scaling = column_marginal / sum;
  next_v[column] = scaling;
  if (!in_range(scaling)) status->out_of_range = 1.0;
}
