#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "job/model_config.h"
#include "job/resolved_job.h"
#include "job/shard_plan.h"
#include "worker/calibration/calibration.h"
#include "worker/checkpoint/writer.h"

namespace dotresize {

/// Where every tensor of the output goes (output_model_config): each rank writes the shards of its
/// own sublayers.
ShardLayout output_layout(const ModelConfig& output, const ResolvedJob& job, const ShardPlan& plan);

/// Writes the folded weights of one rank into its shards, as the output model has them.
class OutputShards final : public FoldedModelSink {
 public:
  OutputShards(const std::filesystem::path& dir, const ShardLayout& layout, int rank,
               const ModelConfig& source, const ModelConfig& output, const ResolvedJob& job,
               PhaseClock& clock);
  void put_embedding(const at::Tensor& embedding) override;
  void put_sublayer(const SublayerWeights& weights) override;
  void put_head(const HeadWeights& head) override;
  void finish() { writer_.finish(); }

 private:
  ShardWriter writer_;
  const ModelConfig& output_;
  std::optional<StockNorm> norm_;  ///< of a stock model
  PhaseClock& clock_;
};

/// config.json, the Python code of a compressed model, and the source's tokenizer and generation
/// files: all that the shards need to load. Rank 0, after all shards are written; the index comes
/// last.
void write_companion_files(const std::filesystem::path& dir, const ShardLayout& layout,
                           const ModelConfig& output, const ResolvedJob& job);

at::ScalarType scalar_type(Dtype dtype);

}  // namespace dotresize
