#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "job/model_config.h"
#include "job/resolved_job.h"
#include "job/shard_plan.h"
#include "worker/calibration/calibration.h"
#include "worker/checkpoint/writer.h"

namespace dotresize {

/// Where every tensor of the compressed model goes: each rank writes the shards of its own
/// sublayers.
ShardLayout output_layout(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan);

/// Writes the folded weights of one rank into its shards.
class OutputShards final : public FoldedModelSink {
 public:
  OutputShards(const std::filesystem::path& dir, const ShardLayout& layout, int rank,
               const ModelConfig& config, const ResolvedJob& job, PhaseClock& clock);
  void put_embedding(const at::Tensor& embedding) override;
  void put_sublayer(const SublayerWeights& weights) override;
  void put_head(const HeadWeights& head) override;
  void finish() { writer_.finish(); }

 private:
  ShardWriter writer_;
  const ModelConfig& config_;
  const ResolvedJob& job_;
  PhaseClock& clock_;
};

/// config.json, the Python code, and the source's tokenizer and generation files: all that the
/// shards need to load. Rank 0, after all shards are written; the index comes last.
void write_companion_files(const std::filesystem::path& dir, const ShardLayout& layout,
                           const ModelConfig& config, const ResolvedJob& job);

/// SHA256SUMS of all files below `dir`, sorted by path; `known`: hashes by relative path that are
/// there already.
void write_checksums(const std::filesystem::path& dir,
                     const std::map<std::string, std::string>& known);

at::ScalarType scalar_type(Dtype dtype);

}  // namespace dotresize
