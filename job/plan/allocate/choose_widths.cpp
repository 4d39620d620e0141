#include "job/plan/allocate/choose_widths.h"

#include <fmt/format.h>

#include <cmath>

#include "base/errors.h"
#include "job/plan/net_size.h"

namespace dotresize {
int64_t default_round_to(int64_t hidden_size, bool engines) {
  if (hidden_size < 2048) return 8;
  return engines ? 256 : 64;
}

std::vector<int64_t> possible_widths(int64_t hidden_size, int64_t round_to) {
  std::vector<int64_t> widths;
  for (int64_t k = round_to; k < hidden_size; k += round_to) widths.push_back(k);
  widths.push_back(hidden_size);
  return widths;
}

int64_t width_from_sparsity(double sparsity, int64_t hidden_size, int64_t round_to) {
  const double multiples =
      (1.0 - sparsity) * static_cast<double>(hidden_size) / static_cast<double>(round_to);
  const int64_t width = static_cast<int64_t>(std::floor(multiples + 1e-9)) * round_to;
  if (width <= 0) {
    throw InputError("method.sparsity",
                     std::to_string(sparsity) + " of hidden size " + std::to_string(hidden_size) +
                         " leaves no width that is a multiple of " + std::to_string(round_to) +
                         "; a smaller sparsity, a smaller round_to or an explicit width would do");
  }
  return width;
}

int64_t width_from_size(double size, int64_t round_to, const ModelConfig& config,
                        const ResolvedJob& job) {
  NetSize net;
  for (int64_t k = config.hidden_size / round_to * round_to; k > 0; k -= round_to) {
    net = net_size(config, job,
                   decided(uniform_widths(config, job.maps.head_sliced, k), config.hidden_size));
    if (net.compressed_bytes <= largest_bytes(size, net.dense_bytes)) return k;
  }
  if (round_to > config.hidden_size) {
    throw InputError(
        "method.size",
        fmt::format("no width up to the hidden size, {}, is a multiple of {}; a smaller round_to "
                    "would do",
                    config.hidden_size, round_to));
  }
  throw InputError("method.size",
                   fmt::format("{} is not available: the smallest width, {}, gives {:.6f} of the "
                               "dense model's bytes",
                               size, round_to, net.bytes_fraction()));
}

}  // namespace dotresize
