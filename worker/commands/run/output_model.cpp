#include "worker/commands/run/output_model.h"

#include <ATen/ATen.h>

#include <array>
#include <utility>

#include "base/durable_file.h"
#include "base/input_file.h"
#include "job/model/output_config.h"
#include "job/model/tensor_table.h"
#include "job/plan/net_size.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/python/python_helper.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxConfigBytes = 16 << 20;

/// Copied byte for byte if the source has them.
constexpr std::array<const char*, 10> kCopiedFiles = {
    "tokenizer.json",     "tokenizer_config.json",
    "tokenizer.model",    "special_tokens_map.json",
    "vocab.json",         "merges.txt",
    "added_tokens.json",  "chat_template.jinja",
    "chat_template.json", "generation_config.json"};

/// Where every tensor of the output goes (output_model_config): each rank writes the shards of its
/// own sublayers.
ShardLayout output_layout(const ModelConfig& output, const ResolvedJob& job,
                          const ShardPlan& plan) {
  const at::ScalarType dtype = scalar_type(job.output_dtype);
  std::vector<std::vector<TensorSpec>> by_rank;
  for (const RankShard& shard : plan.ranks) {
    std::vector<TensorSpec>& specs = by_rank.emplace_back();
    for (StoredTensor& tensor : shard_tensors(output, shard.first_sublayer, shard.end_sublayer)) {
      specs.push_back({std::move(tensor.name), dtype, std::move(tensor.shape)});
    }
  }
  return make_shard_layout(by_rank);
}

}  // namespace

OutputShards::OutputShards(fs::path dir, int rank, const ModelConfig& source,
                           const ResolvedJob& job, const ShardPlan& plan)
    : dir_(std::move(dir)), rank_(rank), source_(source), job_(job), plan_(plan) {}

void OutputShards::begin(const JunctionWidths& widths) {
  widths_ = widths;
  output_ = output_model_config(source_, job_, widths);
  layout_ = output_layout(output_, job_, plan_);
  writer_.emplace(dir_, layout_, rank_);
  if (!output_.compressed) {
    norm_ = stock_norm(source_.hidden_size, output_.hidden_size, scalar_type(job_.output_dtype));
  }
}

void OutputShards::put_embedding(const at::Tensor& embedding) {
  writer_->write(embedding_tensor(output_).name, embedding);
}

void OutputShards::put_sublayer(const SublayerWeights& weights) {
  for_each_stored(norm_ ? with_stock_norm(weights, *norm_) : weights,
                  sublayer_tensors(output_, weights.sublayer),
                  [&](const StoredTensor& stored, const at::Tensor& tensor) {
                    writer_->write(stored.name, tensor);
                  });
}

void OutputShards::put_head(const HeadWeights& head) {
  const HeadWeights stored = norm_ ? with_stock_norm(head, *norm_) : head;
  for (const StoredTensor& tensor : head_tensors(output_)) {
    writer_->write(tensor.name,
                   tensor.role == TensorRole::kFinalNorm ? stored.norm : stored.weight);
  }
}

void OutputShards::finish() { writer_->finish(); }

void write_companion_files(const fs::path& dir, const ShardLayout& layout,
                           const ModelConfig& output, const ResolvedJob& job) {
  const std::string source = read_whole_file(job.model_path / "config.json", kMaxConfigBytes);
  write_file_atomically(dir / "config.json", output_config_json(source, output));
  if (output.compressed) {
    write_file_atomically(dir / "configuration_dotresize.py", std::string(configuration_py()));
    write_file_atomically(dir / "modeling_dotresize.py", std::string(modeling_py()));
  }
  for (const char* name : kCopiedFiles) {
    if (fs::exists(job.model_path / name)) fs::copy_file(job.model_path / name, dir / name);
  }
  write_file_atomically(dir / "model.safetensors.index.json", index_json(layout));
}

}  // namespace dotresize
