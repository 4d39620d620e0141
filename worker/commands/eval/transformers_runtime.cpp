#include <ATen/Parallel.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/errors.h"
#include "base/files/directory.h"
#include "base/files/input_file.h"
#include "base/text/checked_json.h"
#include "job/model/output_config.h"
#include "worker/commands/eval/measure_models.h"
#include "worker/python/python_helper.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr size_t kMaxFileBytes = 16 << 20;

}  // namespace

bool may_run_code(const fs::path& model_dir, const ModelConfig& config) {
  if (!config.compressed) return false;
  const auto refuse = [&](const std::string& file, const std::string& what) {
    throw InputError((model_dir / file).string() + ": " + what +
                     ": untrusted code, which --runtime transformers does not run");
  };
  const json keys = read_json_object(model_dir / "config.json", kMaxFileBytes);
  if (!keys.contains("auto_map") || keys.at("auto_map") != custom_code_map(config)) {
    refuse("config.json", "auto_map does not name the code of dotresize");
  }
  for (const auto& [name, expected] : output_code(!config.form.norm_weights)) {
    const std::string file = std::string(name) + ".py";
    if (read_whole_file(model_dir / file, kMaxFileBytes) != expected) {
      refuse(file, "not the file that this version of dotresize writes");
    }
  }
  return true;
}

TransformersResult run_in_transformers(const fs::path& model_dir, const ModelConfig& config,
                                       const fs::path& token_file, int64_t seqlen,
                                       const std::optional<LatencyOptions>& latency) {
  const ScratchDirectory scratch;
  const fs::path out = scratch.path() / "result.json";
  std::vector<std::string> arguments = {fs::absolute(model_dir).string(), out.string(), "--threads",
                                        std::to_string(at::get_num_threads())};
  if (may_run_code(model_dir, config)) arguments.emplace_back("--trust-remote-code");
  if (!token_file.empty()) {
    arguments.insert(arguments.end(), {"--tokens", fs::absolute(token_file).string(), "--seqlen",
                                       std::to_string(seqlen)});
  }
  if (latency) {
    const std::array<std::pair<const char*, int64_t>, 6> numbers = {
        {{"--prompt", latency->prompt},
         {"--decode", latency->decode},
         {"--batch", latency->batch},
         {"--repetitions", latency->repetitions},
         {"--warmup", latency->warmup},
         {"--seed", static_cast<int64_t>(latency->seed)}}};
    arguments.emplace_back("--latency");
    for (const auto& [name, number] : numbers) {
      arguments.insert(arguments.end(), {name, std::to_string(number)});
    }
  }
  run_python_helper("transformers", run_in_transformers_py(), arguments);

  const json document = read_json_object(out, kMaxFileBytes);
  TransformersResult result;
  if (!token_file.empty()) result.perplexity = document.at("perplexity").get<double>();
  if (latency) {
    result.latency = LatencySamples{document.at("prompt_ms").get<std::vector<double>>(),
                                    document.at("decode_ms").get<std::vector<double>>()};
  }
  return result;
}

}  // namespace dotresize
