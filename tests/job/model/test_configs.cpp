#include "tests/job/model/test_configs.h"

#include <algorithm>
#include <stdexcept>

#include "job/model/read_model_config.h"
#include "job/plan/schedule.h"

namespace dotresize {

ModelConfig llama31() { return parse_model_config(kLlama31Config, "config.json"); }

ModelConfig small_llama() {
  return parse_model_config(R"({"model_type": "llama", "hidden_size": 256,
      "intermediate_size": 768, "num_hidden_layers": 6, "num_attention_heads": 8,
      "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 4096, "rms_norm_eps": 1e-5,
      "max_position_embeddings": 2048, "dtype": "bfloat16"})",
                            "config.json");
}

const Schedule& schedule_named(std::string_view name) {
  return *std::ranges::find(schedules(), name, &Schedule::name);
}

ResolvedJob small_job(const ModelConfig& config, int ranks) {
  ResolvedJob job;
  job.name = "small";
  job.model.path = "/models/small";
  job.output.path = "/out/small";
  job.output.dtypes.main = Dtype::kBFloat16;
  job.method = method_named("pca_dotresize");
  job.schedule = schedule_named("pipeline");
  job.target.sparsity = 0.2;
  job.model.hidden_size = config.hidden_size;
  job.widths = uniform_widths(config, job.maps.head_sliced, 200);
  job.calibration = {.text = {}, .tokens = "/c.safetensors", .samples = 128, .seqlen = 256};
  job.evaluation =
      EvaluationSource{{.text = {"/e.txt"}, .tokens = {}, .samples = {}, .seqlen = 256}};
  job.resources.ranks = ranks;
  return job;
}

std::string token_file(const std::vector<int64_t>& shape) {
  int64_t bytes = 1;
  std::string sizes;
  for (const int64_t size : shape) {
    bytes *= size;
    sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
  }
  std::string header = R"({"tokens":{"dtype":"U8","shape":[)" + sizes + R"(],"data_offsets":[0,)" +
                       std::to_string(bytes) + "]}}";
  std::string content(8, '\0');
  content[0] = static_cast<char>(header.size());
  return content + header + std::string(static_cast<std::size_t>(bytes), '\0');
}

std::string with(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::invalid_argument("not in the text: " + from);
  return std::string(text).replace(at, from.size(), to);
}

}  // namespace dotresize
