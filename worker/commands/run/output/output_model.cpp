#include "worker/commands/run/output/output_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/text/checked_json.h"
#include "job/model/config_keys.h"
#include "job/model/output_config.h"
#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "job/model/tokenizer_class.h"
#include "job/model/wrappers.h"
#include "job/plan/net_size.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/python/python_helper.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kTokenizerConfig = "tokenizer_config.json";

/// Returns what an output keeps of a companion file that may name code.
nlohmann::json kept_companion(const std::string& name, const nlohmann::json& given,
                              const ModelConfig& output) {
  if (name == kTokenizerConfig) {
    nlohmann::json kept =
        kept_tokenizer_config(given, /*processor=*/output.files.wrapper.has_value());
    name_tokenizer_class(kept, output);
    return kept;
  }
  return name == "generation_config.json" ? kept_generation_config(given)
                                          : kept_wrapper_config(given);
}

/// Returns an output's form of the source's companion file, byte for byte if nothing in it has to
/// change. Absent: the output needs none.
std::optional<std::string> companion_text(const fs::path& source, const ModelConfig& output) {
  const std::string name = source.filename().string();
  const bool there = fs::exists(source);
  if (!there && name != kTokenizerConfig) return std::nullopt;
  std::string text = there ? read_whole_file(source, kMaxCompanionBytes) : "{}";
  if (std::ranges::count(kFilteredFiles, name) + std::ranges::count(kProcessorFiles, name) == 0) {
    return text;
  }
  const nlohmann::json given = parse_json_object(text, source.string());
  const nlohmann::json kept = kept_companion(name, given, output);
  if (kept == given) return there ? std::optional(std::move(text)) : std::nullopt;
  return kept.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

OutputShards::OutputShards(Communicator& comm, fs::path dir, const ModelConfig& source,
                           const ResolvedJob& job, const ShardPlan& plan,
                           const std::map<std::string, TensorPlace>& others)
    : comm_(comm), dir_(std::move(dir)), source_(source), job_(job), plan_(plan), others_(others) {
  int64_t turn = 0;
  for (const auto& entry : others_) {
    if (turn++ % comm_.size() == comm_.rank()) copied_.push_back(entry.first);
  }
}

void OutputShards::begin(const JunctionWidths& widths) {
  widths_ = widths;
  output_ = output_model_config(source_, job_, widths);
  std::vector<TensorSpec> specs;
  for (StoredTensor& tensor : shard_tensors(output_, 0, output_.num_sublayers())) {
    const at::ScalarType dtype = scalar_type(output_.files.dtypes.of(tensor.name));
    std::string in_file = stored_name(output_, tensor.name_in_files());
    specs.push_back({std::move(tensor.name), dtype, std::move(tensor.shape), std::move(in_file),
                     std::move(tensor.slice)});
  }
  for (const auto& entry : others_) specs.push_back(copied_tensor(entry.second));
  layout_ = make_shard_layout(specs);
  if (comm_.rank() == 0) create_shards(dir_, layout_);
  comm_.barrier();
  const RankShard& shard = plan_.of_rank(comm_.rank());
  std::set<std::string> mine(copied_.begin(), copied_.end());
  for (StoredTensor& tensor : shard_tensors(output_, shard.first_sublayer, shard.end_sublayer)) {
    mine.insert(std::move(tensor.name));
  }
  writer_.emplace(dir_, layout_, mine);
  has_stock_norms_ = !output_.compressed && widths.mapped_count > 0;
}

StockNorm OutputShards::norm_of(const std::string& tensor) const {
  return stock_norm(source_.hidden_size, output_.hidden_size,
                    scalar_type(output_.files.dtypes.of(tensor)));
}

void OutputShards::put_end(TensorRole role, const at::Tensor& rows, int64_t first) {
  const std::string name = end_tensor(output_, role)->name;
  if (has_stock_norms_ && role == TensorRole::kHead) {
    const std::string norm_name = end_tensor(output_, TensorRole::kFinalNorm)->name;
    const StockNorm norm = norm_of(norm_name);
    writer_->write(name, rows * norm.rest, first);
    if (first == 0) writer_->write(norm_name, norm.weight);
  } else if (has_stock_norms_ && role == TensorRole::kFinalNorm) {
    writer_->write(name, rows * norm_of(name).exact);
  } else {
    writer_->write(name, rows, first);
  }
}

void OutputShards::put_sublayer(const SublayerWeights& weights) {
  const std::vector<StoredTensor> tensors = sublayer_tensors(output_, weights.sublayer);
  SublayerWeights written = weights;
  if (has_stock_norms_) {
    const auto norm = std::ranges::find(tensors, TensorRole::kNorm, &StoredTensor::role);
    written = with_stock_norm(weights, norm_of(norm->name));
  }
  for_each_stored(written, tensors, [&](const StoredTensor& stored, const at::Tensor& tensor) {
    writer_->write(stored.name, tensor);
  });
}

void OutputShards::finish() {
  for (const std::string& name : copied_) writer_->copy(name, job_.model.path);
  writer_->finish();
}

void write_companion_files(const fs::path& dir, const ShardLayout& layout,
                           const ModelConfig& output, const ResolvedJob& job) {
  const std::string source = read_whole_file(job.model.path / "config.json", kMaxConfigBytes);
  write_file_atomically(dir / "config.json", output_config_json(source, output));
  if (output.compressed) {
    for (const auto& [name, source_text] : output_code(!output.form.norm_weights)) {
      write_file_atomically(dir / (std::string(name) + ".py"), std::string(source_text));
    }
  }
  std::vector<std::string> names(kCompanionFiles.begin(), kCompanionFiles.end());
  if (output.files.wrapper)
    names.insert(names.end(), kProcessorFiles.begin(), kProcessorFiles.end());
  for (const std::string& name : names) {
    const std::optional<std::string> text = companion_text(job.model.path / name, output);
    if (text) write_file_atomically(dir / name, *text);
  }
  write_file_atomically(dir / "model.safetensors.index.json", index_json(layout));
}

}  // namespace dotresize
