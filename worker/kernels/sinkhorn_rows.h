#pragma once

#include <cstddef>

namespace dotresize {

// Sinkhorn steps on some rows of a matrix [., columns] float64, on the processor's widest vectors.
// L = C/λ. Sums over columns are lane by lane: their last digit depends on the instruction set, but
// not on the distribution of rows over threads.

struct SinkhornRows {
  size_t rows;
  size_t columns;
};

/// log_sums[i] = log Σ_j exp(beta[j] − L_ij).
void sinkhorn_log_row_sums(SinkhornRows shape, const double* cost, double lambda,
                           const double* beta, double* log_sums);

/// maxima[j] = max(maxima[j], max_i (alpha[i] − L_ij)).
void sinkhorn_column_maxima(SinkhornRows shape, const double* cost, double lambda,
                            const double* alpha, double* maxima);

/// K_ij = exp(alpha[i] − L_ij − maxima[j]); column_sums[j] += Σ_i K_ij.
void sinkhorn_make_kernel(SinkhornRows shape, const double* cost, double lambda,
                          const double* alpha, const double* maxima, double* kernel,
                          double* column_sums);

/// Reads K once: row_sums[i] = Σ_j K_ij v[j]; column_sums[j] += Σ_i K_ij · marginal / row_sums[i].
void sinkhorn_scale(SinkhornRows shape, const double* kernel, const double* v, double marginal,
                    double* row_sums, double* column_sums);

/// T_ij = u[i] K_ij v[j]; row_sums[i] = Σ_j T_ij; column_sums[j] += Σ_i T_ij.
void sinkhorn_make_plan(SinkhornRows shape, const double* kernel, const double* u, const double* v,
                        double* plan, double* row_sums, double* column_sums);

}  // namespace dotresize
