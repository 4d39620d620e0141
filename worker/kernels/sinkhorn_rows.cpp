#include "worker/kernels/sinkhorn_rows.h"

#include <cmath>
#include <limits>
#include <type_traits>

// Vectors of unknown length cannot be members. Processors with such vectors use NEON instead.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/kernels/sinkhorn_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// This header must come after highway.h, for each target.
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace dotresize {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<double>;
using Single = hn::CappedTag<double, 1>;  // columns beyond the last whole vector

/// Calls body(tag, c) for the columns, a vector at a time.
template <class Body>
HWY_INLINE void for_columns(size_t columns, const Body& body) {
  size_t c = 0;
  for (; c + hn::Lanes(Wide()) <= columns; c += hn::Lanes(Wide())) body(Wide(), c);
  for (; c < columns; ++c) body(Single(), c);
}

/// Σ or max over the columns of a row.
class Reduction {
 public:
  explicit HWY_INLINE Reduction(double start = 0.0)
      : wide_(hn::Set(Wide(), start)), single_(hn::Set(Single(), start)) {}

  template <class Tag, class Function>
  HWY_INLINE void apply(Tag, const Function& function) {
    if constexpr (std::is_same_v<Tag, Wide>) {
      wide_ = function(wide_);
    } else {
      single_ = function(single_);
    }
  }
  HWY_INLINE double sum() const {
    return hn::GetLane(hn::SumOfLanes(Wide(), wide_)) + hn::GetLane(single_);
  }
  HWY_INLINE double max() const {
    return std::fmax(hn::GetLane(hn::MaxOfLanes(Wide(), wide_)), hn::GetLane(single_));
  }

 private:
  hn::Vec<Wide> wide_;
  hn::Vec<Single> single_;
};

void log_row_sums(SinkhornRows shape, const double* cost, double lambda, const double* beta,
                  double* log_sums) {
  for (size_t i = 0; i < shape.rows; ++i) {
    const double* row = cost + i * shape.columns;
    const auto exponent = [&](auto tag, size_t c) HWY_ATTR {
      return hn::Sub(hn::LoadU(tag, beta + c),
                     hn::Div(hn::LoadU(tag, row + c), hn::Set(tag, lambda)));
    };
    Reduction largest(-std::numeric_limits<double>::infinity());
    for_columns(shape.columns, [&](auto tag, size_t c) HWY_ATTR {
      largest.apply(tag, [&](auto max) HWY_ATTR { return hn::Max(max, exponent(tag, c)); });
    });
    const double shift = largest.max();
    Reduction total;
    for_columns(shape.columns, [&](auto tag, size_t c) HWY_ATTR {
      const auto term = hn::Exp(tag, hn::Sub(exponent(tag, c), hn::Set(tag, shift)));
      total.apply(tag, [&](auto sum) HWY_ATTR { return hn::Add(sum, term); });
    });
    log_sums[i] = shift + std::log(total.sum());
  }
}

void column_maxima(SinkhornRows shape, const double* cost, double lambda, const double* alpha,
                   double* maxima) {
  for (size_t i = 0; i < shape.rows; ++i) {
    const double* row = cost + i * shape.columns;
    for_columns(shape.columns, [&](auto tag, size_t c) HWY_ATTR {
      const auto scaled = hn::Div(hn::LoadU(tag, row + c), hn::Set(tag, lambda));
      const auto exponent = hn::Sub(hn::Set(tag, alpha[i]), scaled);
      hn::StoreU(hn::Max(hn::LoadU(tag, maxima + c), exponent), tag, maxima + c);
    });
  }
}

void make_kernel(SinkhornRows shape, const double* cost, double lambda, const double* alpha,
                 const double* maxima, double* kernel, double* column_sums) {
  for (size_t i = 0; i < shape.rows; ++i) {
    const double* row = cost + i * shape.columns;
    double* kernel_row = kernel + i * shape.columns;
    for_columns(shape.columns, [&](auto tag, size_t c) HWY_ATTR {
      const auto scaled = hn::Div(hn::LoadU(tag, row + c), hn::Set(tag, lambda));
      const auto exponent =
          hn::Sub(hn::Sub(hn::Set(tag, alpha[i]), scaled), hn::LoadU(tag, maxima + c));
      const auto value = hn::Exp(tag, exponent);
      hn::StoreU(value, tag, kernel_row + c);
      hn::StoreU(hn::Add(hn::LoadU(tag, column_sums + c), value), tag, column_sums + c);
    });
  }
}

/// Scales kRows rows at a time. v, the column sums and the rows' second reading come from the
/// cache.
template <size_t kRows>
HWY_INLINE void scale_rows(size_t columns, const double* kernel, const double* v, double marginal,
                           double* row_sums, double* column_sums) {
  Reduction sums[kRows];
  for_columns(columns, [&](auto tag, size_t c) HWY_ATTR {
    const auto scaling = hn::LoadU(tag, v + c);
    for (size_t r = 0; r < kRows; ++r) {
      const auto value = hn::LoadU(tag, kernel + r * columns + c);
      sums[r].apply(tag, [&](auto sum) HWY_ATTR { return hn::MulAdd(value, scaling, sum); });
    }
  });
  double u[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    row_sums[r] = sums[r].sum();
    u[r] = marginal / row_sums[r];
  }
  for_columns(columns, [&](auto tag, size_t c) HWY_ATTR {
    auto sum = hn::LoadU(tag, column_sums + c);
    for (size_t r = 0; r < kRows; ++r) {
      sum = hn::MulAdd(hn::LoadU(tag, kernel + r * columns + c), hn::Set(tag, u[r]), sum);
    }
    hn::StoreU(sum, tag, column_sums + c);
  });
}

void scale(SinkhornRows shape, const double* kernel, const double* v, double marginal,
           double* row_sums, double* column_sums) {
  constexpr size_t kRows = 4;
  size_t i = 0;
  for (; i + kRows <= shape.rows; i += kRows) {
    scale_rows<kRows>(shape.columns, kernel + i * shape.columns, v, marginal, row_sums + i,
                      column_sums);
  }
  for (; i < shape.rows; ++i) {
    scale_rows<1>(shape.columns, kernel + i * shape.columns, v, marginal, row_sums + i,
                  column_sums);
  }
}

void make_plan(SinkhornRows shape, const double* kernel, const double* u, const double* v,
               double* plan, double* row_sums, double* column_sums) {
  for (size_t i = 0; i < shape.rows; ++i) {
    const double* kernel_row = kernel + i * shape.columns;
    double* plan_row = plan + i * shape.columns;
    Reduction total;
    for_columns(shape.columns, [&](auto tag, size_t c) HWY_ATTR {
      const auto scaled = hn::Mul(hn::Set(tag, u[i]), hn::LoadU(tag, kernel_row + c));
      const auto value = hn::Mul(scaled, hn::LoadU(tag, v + c));
      hn::StoreU(value, tag, plan_row + c);
      hn::StoreU(hn::Add(hn::LoadU(tag, column_sums + c), value), tag, column_sums + c);
      total.apply(tag, [&](auto sum) HWY_ATTR { return hn::Add(sum, value); });
    });
    row_sums[i] = total.sum();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dotresize
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dotresize {

HWY_EXPORT(log_row_sums);
HWY_EXPORT(column_maxima);
HWY_EXPORT(make_kernel);
HWY_EXPORT(scale);
HWY_EXPORT(make_plan);

void sinkhorn_log_row_sums(SinkhornRows shape, const double* cost, double lambda,
                           const double* beta, double* log_sums) {
  HWY_DYNAMIC_DISPATCH(log_row_sums)(shape, cost, lambda, beta, log_sums);
}

void sinkhorn_column_maxima(SinkhornRows shape, const double* cost, double lambda,
                            const double* alpha, double* maxima) {
  HWY_DYNAMIC_DISPATCH(column_maxima)(shape, cost, lambda, alpha, maxima);
}

void sinkhorn_make_kernel(SinkhornRows shape, const double* cost, double lambda,
                          const double* alpha, const double* maxima, double* kernel,
                          double* column_sums) {
  HWY_DYNAMIC_DISPATCH(make_kernel)(shape, cost, lambda, alpha, maxima, kernel, column_sums);
}

void sinkhorn_scale(SinkhornRows shape, const double* kernel, const double* v, double marginal,
                    double* row_sums, double* column_sums) {
  HWY_DYNAMIC_DISPATCH(scale)(shape, kernel, v, marginal, row_sums, column_sums);
}

void sinkhorn_make_plan(SinkhornRows shape, const double* kernel, const double* u, const double* v,
                        double* plan, double* row_sums, double* column_sums) {
  HWY_DYNAMIC_DISPATCH(make_plan)(shape, kernel, u, v, plan, row_sums, column_sums);
}

}  // namespace dotresize
#endif
