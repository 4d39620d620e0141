#include "job/resolved_job.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace dotresize {

bool uses_pca(Method method) {
  return method == Method::kSliceGpt || method == Method::kPcaDotResize;
}

bool uses_transport(Method method) {
  return method == Method::kDotResize || method == Method::kPcaDotResize;
}

std::string to_string(Method method) {
  switch (method) {
    case Method::kMagnitude:
      return "magnitude";
    case Method::kDotResize:
      return "dotresize";
    case Method::kSliceGpt:
      return "slicegpt";
    case Method::kPcaDotResize:
      return "pca_dotresize";
  }
  throw std::invalid_argument("no such Method");
}

std::string to_string(Schedule schedule) {
  switch (schedule) {
    case Schedule::kPipeline:
      return "pipeline";
    case Schedule::kTokenParallel:
      return "token_parallel";
  }
  throw std::invalid_argument("no such Schedule");
}

std::string to_string(CostScale scale) {
  switch (scale) {
    case CostScale::kMax:
      return "max";
    case CostScale::kMean:
      return "mean";
    case CostScale::kNone:
      return "none";
  }
  throw std::invalid_argument("no such CostScale");
}

std::string to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "float32";
    case Dtype::kFloat16:
      return "float16";
    case Dtype::kBFloat16:
      return "bfloat16";
  }
  throw std::invalid_argument("no such Dtype");
}

std::string to_string(DeviceKind device) { return device == DeviceKind::kCuda ? "cuda" : "cpu"; }

void ResolvedJob::set_width(int64_t k) {
  width = k;
  std::fill(junction_widths.begin(), junction_widths.end() - (head_sliced ? 0 : 1), k);
}

double ResolvedJob::nominal_sparsity() const {
  const auto end = junction_widths.end() - (head_sliced ? 0 : 1);
  const int64_t sum = std::accumulate(junction_widths.begin(), end, int64_t{0});
  const auto count = static_cast<double>(end - junction_widths.begin());
  return 1.0 - static_cast<double>(sum) / count / static_cast<double>(hidden_size);
}

int64_t size_in_bytes(Dtype dtype) { return dtype == Dtype::kFloat32 ? 4 : 2; }

}  // namespace dotresize
