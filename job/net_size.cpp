#include "job/net_size.h"

#include "job/model_size.h"

namespace dotresize {

NetSize net_size(const ModelConfig& config, const ResolvedJob& job) {
  NetSize size;
  size.dense_parameters = dense_parameters(config);
  size.dense_bytes = size.dense_parameters * size_in_bytes(job.source_dtype);
  size.compressed_parameters = compressed_parameters(config, job.junction_widths);
  size.compressed_bytes = size.compressed_parameters * size_in_bytes(job.output_dtype);
  return size;
}

std::string size_warning(const NetSize& size, const ResolvedJob& job) {
  if (size.compressed_parameters < size.dense_parameters) return "";
  return "at width " + std::to_string(job.width) +
         " the result is not smaller than the dense model: the shortcut matrices cost more than "
         "the narrower weights save; choose a smaller width";
}

}  // namespace dotresize
