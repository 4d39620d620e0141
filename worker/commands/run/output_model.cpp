#include "worker/commands/run/output_model.h"

#include <ATen/ATen.h>

#include <array>

#include "base/durable_file.h"
#include "base/small_file.h"
#include "job/model/output_config.h"
#include "job/plan/output_model_config.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/python/embedded.h"

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

}  // namespace

ShardLayout output_layout(const ModelConfig& output, const ResolvedJob& job,
                          const ShardPlan& plan) {
  const at::ScalarType dtype = scalar_type(job.output_dtype);
  const std::vector<int64_t>& widths = output.junction_widths;
  std::vector<std::vector<TensorSpec>> by_rank;
  for (const RankShard& shard : plan.ranks) {
    std::vector<TensorSpec>& tensors = by_rank.emplace_back();
    if (shard.first_sublayer == 0) {
      tensors.push_back({kEmbeddingName, dtype, {output.vocab_size, widths.front()}});
    }
    for (int64_t sublayer = shard.first_sublayer; sublayer < shard.end_sublayer; ++sublayer) {
      for (const StoredTensor& tensor : stored_tensors(output, sublayer)) {
        tensors.push_back({tensor.name, dtype, tensor.shape});
      }
    }
    if (shard.end_sublayer == output.num_sublayers()) {
      if (!output.compressed) tensors.push_back({kFinalNormName, dtype, {widths.back()}});
      tensors.push_back({kHeadName, dtype, {output.vocab_size, widths.back()}});
    }
  }
  return make_shard_layout(by_rank);
}

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
  writer_->write(kEmbeddingName, embedding);
}

void OutputShards::put_sublayer(const SublayerWeights& weights) {
  const std::vector<StoredTensor> tensors = stored_tensors(output_, weights.sublayer);
  const std::vector<at::Tensor> values =
      stored_values(output_, norm_ ? with_stock_norm(weights, *norm_) : weights);
  for (size_t i = 0; i < tensors.size(); ++i) writer_->write(tensors[i].name, values.at(i));
}

void OutputShards::put_head(const HeadWeights& head) {
  const HeadWeights stored = norm_ ? with_stock_norm(head, *norm_) : head;
  if (stored.norm.defined()) writer_->write(kFinalNormName, stored.norm);
  writer_->write(kHeadName, stored.weight);
}

void OutputShards::finish() { writer_->finish(); }

void write_companion_files(const fs::path& dir, const ShardLayout& layout,
                           const ModelConfig& output, const ResolvedJob& job) {
  const std::string source = read_small_file(job.model_path / "config.json", kMaxConfigBytes);
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
