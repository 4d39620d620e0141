#include "worker/calibration/storage/kept_sums.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/text/printable.h"
#include "worker/checkpoint/dtypes.h"

namespace dotresize {

NamedTensors kept_sums(const CalibrationJob& job, const std::string& entry,
                       const std::vector<std::string>& required) {
  if (job.statistics == nullptr) return job.journal.get(entry);
  NamedTensors tensors = job.statistics->get(entry);
  tensors.erase("precision");  // earlier versions chose one for the costs
  const int64_t d = job.config.hidden_size;
  const auto check = [&](const std::string& name) {
    std::vector<int64_t> shape = {d, d};
    if (name == "values" || name == "abs_sum") shape = {d};
    kept_tensor(tensors, entry, name, at::kDouble, shape);
  };
  for (const std::string& name : required) check(name);
  for (const auto& found : tensors) check(found.first);
  return tensors;
}

at::Tensor kept_tensor(const NamedTensors& tensors, const std::string& entry,
                       const std::string& name, at::ScalarType dtype, at::IntArrayRef shape) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    throw InputError(fmt::format("the statistics of {} have no tensor {}", entry, name));
  }
  const at::Tensor& tensor = found->second;
  if (tensor.scalar_type() == dtype && tensor.sizes() == shape) return tensor;
  throw InputError(fmt::format("the statistics of {}: tensor {} is not {} of shape [{}]", entry,
                               printable(name), safetensors_dtype(dtype), fmt::join(shape, ", ")));
}

}  // namespace dotresize
