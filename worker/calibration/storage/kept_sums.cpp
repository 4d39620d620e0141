#include "worker/calibration/storage/kept_sums.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/text/printable.h"

namespace dotresize {

NamedTensors kept_sums(const CalibrationJob& job, const std::string& entry,
                       const std::vector<std::string>& required) {
  if (job.statistics == nullptr) return job.journal.get(entry);
  NamedTensors tensors = job.statistics->get(entry);
  tensors.erase("precision");  // earlier versions chose one for the costs
  for (const std::string& name : required) {
    if (!tensors.contains(name)) {
      throw InputError(fmt::format("the statistics of {} have no tensor {}", entry, name));
    }
  }
  const int64_t d = job.config.hidden_size;
  for (const auto& [name, tensor] : tensors) {
    std::vector<int64_t> shape = {d, d};
    if (name == "values" || name == "abs_sum") shape = {d};
    if (tensor.scalar_type() == at::kDouble && tensor.sizes() == at::IntArrayRef(shape)) continue;
    throw InputError(fmt::format("the statistics of {}: tensor {} is not float64 of shape [{}]",
                                 entry, printable(name), fmt::join(shape, ", ")));
  }
  return tensors;
}

}  // namespace dotresize
