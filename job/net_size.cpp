#include "job/net_size.h"

#include "job/model_size.h"
#include "job/output_config.h"

namespace dotresize {

NetSize net_size(const ModelConfig& config, const ResolvedJob& job) {
  NetSize size;
  size.dense_parameters = stored_parameters(config);
  size.dense_bytes = size.dense_parameters * size_in_bytes(job.source_dtype);
  size.compressed_parameters = stored_parameters(output_model_config(config, job));
  size.compressed_bytes = size.compressed_parameters * size_in_bytes(job.output_dtype);
  return size;
}

std::string size_warning(const NetSize& size, const ResolvedJob& job) {
  if (size.compressed_parameters < size.dense_parameters) return "";
  const std::string reason =
      job.stock_output() ? "" : ": the shortcut matrices cost more than the narrower weights save";
  return "at width " + std::to_string(job.width) +
         " the result is not smaller than the dense model" + reason + "; choose a smaller width";
}

}  // namespace dotresize
