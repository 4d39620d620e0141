#include "job/model/shortcut_form.h"

#include <algorithm>

namespace dotresize {

int64_t shortcut_parameters(const ShortcutForm& form, int64_t k_in, int64_t k_out) {
  if (form.dense()) return k_in * k_out;
  return *form.rank * (form.factors == 1 ? k_in : k_in + k_out);
}

int64_t shortcut_products(const ShortcutForm& form, int64_t k_in, int64_t k_out) {
  if (form.dense()) return k_in * k_out;
  return *form.rank * (k_in + (form.factors == 1 ? std::min(k_in, k_out) : k_out));
}

int64_t exact_shortcut_rank(int64_t k_in, int64_t k_out, int64_t d, int64_t factors) {
  // M_inv_in·M_out is the identity on the intersection of both spans.
  if (factors == 2) return std::min({k_in, k_out, d - std::min(k_in, k_out)});
  // Both maps' spans have at least k_in + k_out - d dimensions in common. The identity, cut to
  // k_out < k_in columns, keeps 2 k_out - d of them.
  return std::min({k_in, k_out, d - k_out});
}

ShortcutForm smallest_shortcut(int64_t k_in, int64_t k_out, int64_t d, int64_t factors,
                               std::optional<int64_t> most) {
  const int64_t exact = exact_shortcut_rank(k_in, k_out, d, factors);
  const ShortcutForm form{std::min(most.value_or(exact), exact), factors};
  const bool smaller = shortcut_parameters(form, k_in, k_out) < k_in * k_out;
  return smaller ? form : ShortcutForm{.factors = factors};
}

}  // namespace dotresize
