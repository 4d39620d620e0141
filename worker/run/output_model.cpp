#include "worker/run/output_model.h"

#include <ATen/ATen.h>

#include <array>

#include "job/output_config.h"
#include "job/small_file.h"
#include "worker/python/embedded.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxConfigBytes = 16 << 20;

/// Copied byte for byte where the source has them.
constexpr std::array<const char*, 10> kCopiedFiles = {
    "tokenizer.json",     "tokenizer_config.json",
    "tokenizer.model",    "special_tokens_map.json",
    "vocab.json",         "merges.txt",
    "added_tokens.json",  "chat_template.jinja",
    "chat_template.json", "generation_config.json"};

int64_t width(const ResolvedJob& job, int64_t junction) {
  return job.junction_widths[static_cast<size_t>(junction)];
}

std::vector<StoredTensor> sublayer_tensors(const ModelConfig& config, const ResolvedJob& job,
                                           int64_t sublayer) {
  return folded_tensors(config, sublayer, width(job, sublayer), width(job, sublayer + 1));
}

}  // namespace

at::ScalarType scalar_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return at::kFloat;
    case Dtype::kFloat16:
      return at::kHalf;
    case Dtype::kBFloat16:
      return at::kBFloat16;
  }
  throw std::logic_error("unknown dtype");
}

ShardLayout output_layout(const ModelConfig& config, const ResolvedJob& job,
                          const ShardPlan& plan) {
  const at::ScalarType dtype = scalar_type(job.output_dtype);
  std::vector<std::vector<TensorSpec>> by_rank;
  for (const RankShard& shard : plan.ranks) {
    std::vector<TensorSpec>& tensors = by_rank.emplace_back();
    if (shard.first_sublayer == 0) {
      tensors.push_back({kEmbeddingName, dtype, {config.vocab_size, width(job, 0)}});
    }
    for (int64_t sublayer = shard.first_sublayer; sublayer < shard.end_sublayer; ++sublayer) {
      for (const StoredTensor& tensor : sublayer_tensors(config, job, sublayer)) {
        tensors.push_back({tensor.name, dtype, tensor.shape});
      }
    }
    if (shard.end_sublayer == config.num_sublayers()) {
      tensors.push_back(
          {kHeadName, dtype, {config.vocab_size, width(job, config.num_sublayers())}});
    }
  }
  return make_shard_layout(by_rank);
}

OutputShards::OutputShards(const fs::path& dir, const ShardLayout& layout, int rank,
                           const ModelConfig& config, const ResolvedJob& job, PhaseClock& clock)
    : writer_(dir, layout, rank), config_(config), job_(job), clock_(clock) {}

void OutputShards::put_embedding(const at::Tensor& embedding) {
  const PhaseClock::Scope scope(clock_, "write");
  writer_.write(kEmbeddingName, embedding);
}

void OutputShards::put_sublayer(const SublayerWeights& weights) {
  const PhaseClock::Scope scope(clock_, "write");
  const std::vector<StoredTensor> tensors = sublayer_tensors(config_, job_, weights.sublayer);
  const std::vector<at::Tensor> values = folded_values(weights);
  for (size_t i = 0; i < tensors.size(); ++i) writer_.write(tensors[i].name, values.at(i));
}

void OutputShards::put_head(const HeadWeights& head) {
  const PhaseClock::Scope scope(clock_, "write");
  writer_.write(kHeadName, head.weight);
}

void write_companion_files(const fs::path& dir, const ShardLayout& layout,
                           const ModelConfig& config, const ResolvedJob& job) {
  const std::string source = read_small_file(job.model_path / "config.json", kMaxConfigBytes);
  write_file_atomically(dir / "config.json",
                        output_config_json(source, config, job.junction_widths, job.output_dtype));
  write_file_atomically(dir / "configuration_dotresize.py", std::string(configuration_py()));
  write_file_atomically(dir / "modeling_dotresize.py", std::string(modeling_py()));
  for (const char* name : kCopiedFiles) {
    if (fs::exists(job.model_path / name)) fs::copy_file(job.model_path / name, dir / name);
  }
  write_file_atomically(dir / "model.safetensors.index.json", index_json(layout));
}

void write_checksums(const fs::path& dir, const std::map<std::string, std::string>& known) {
  std::map<std::string, std::string> sums = known;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().lexically_relative(dir).string();
    if (!sums.contains(name)) sums[name] = sha256_of_file(entry.path());
  }
  std::string text;
  for (const auto& [name, sum] : sums) text += sum + "  " + name + "\n";
  write_file_atomically(dir / "SHA256SUMS", text);
}

}  // namespace dotresize
