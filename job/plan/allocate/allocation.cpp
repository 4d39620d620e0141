#include "job/plan/allocate/allocation.h"

#include <numeric>

namespace dotresize {

double Allocation::predicted_loss_increase() const {
  double sum = 0.0;
  for (const auto* loss_increases : {&junction_loss_increases, &mlp_loss_increases,
                                     &value_loss_increases, &shortcut_loss_increases}) {
    sum = std::accumulate(loss_increases->begin(), loss_increases->end(), sum);
  }
  return sum;
}

int64_t planned_shortcut_rank(int64_t hidden_size) { return (hidden_size + 31) / 32; }

}  // namespace dotresize
