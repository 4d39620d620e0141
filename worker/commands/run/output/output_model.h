#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shards/rank_shard.h"
#include "worker/calibration/calibration_job.h"
#include "worker/checkpoint/writer.h"
#include "worker/transformer/fold_sublayer.h"

namespace dotresize {

/// Writes one rank's folded weights into the output's shards, in the output model's form, and its
/// share of a wrapper's other tensors, `others`, as they are. `source`: has the output's MLP widths
/// if the loss has decided them. The number of ranks does not affect the shards. The references
/// must outlive the object.
class OutputShards final : public FoldedModelSink {
 public:
  OutputShards(Communicator& comm, std::filesystem::path dir, const ModelConfig& source,
               const ResolvedJob& job, const ShardPlan& plan,
               const std::map<std::string, TensorPlace>& others);
  void begin(const JunctionWidths& widths) override;
  void put_end(TensorRole role, const at::Tensor& rows, int64_t first) override;
  void put_sublayer(const SublayerWeights& weights) override;
  /// Copies the other tensors, and flushes the files.
  void finish();

  // Results of begin().
  const JunctionWidths& widths() const { return widths_; }
  const ModelConfig& output() const override { return output_; }
  const ShardLayout& layout() const { return layout_; }

 private:
  /// Norm of a stock model with maps, rounded to the dtype of its tensor.
  StockNorm norm_of(const std::string& tensor) const;

  Communicator& comm_;
  std::filesystem::path dir_;
  const ModelConfig& source_;
  const ResolvedJob& job_;
  const ShardPlan& plan_;
  const std::map<std::string, TensorPlace>& others_;
  std::vector<std::string> copied_;  ///< names in others_ that this rank copies
  JunctionWidths widths_;
  ModelConfig output_;
  ShardLayout layout_;
  std::optional<ShardWriter> writer_;
  bool has_stock_norms_ = false;  ///< the output is a stock model with maps
};

/// Writes the files that are needed to load the shards: config.json, the Python code of a
/// compressed model, and the source's tokenizer and generation files. Called on rank 0 after all
/// shards are written. The index is written last.
void write_companion_files(const std::filesystem::path& dir, const ShardLayout& layout,
                           const ModelConfig& output, const ResolvedJob& job);

}  // namespace dotresize
