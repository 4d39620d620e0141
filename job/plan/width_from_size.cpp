#include "job/plan/width_from_size.h"

#include <fmt/format.h>

#include "base/errors.h"
#include "job/plan/net_size.h"

namespace dotresize {

int64_t width_from_size(double size, int64_t round_to, const ModelConfig& config,
                        const ResolvedJob& job) {
  NetSize net;
  for (int64_t k = config.hidden_size / round_to * round_to; k > 0; k -= round_to) {
    net = net_size(config, job, uniform_widths(config, job.head_sliced, k));
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
