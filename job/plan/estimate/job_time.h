#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "job/model/model_size.h"
#include "job/plan/estimate/hardware.h"
#include "job/plan/estimate/phase_times.h"
#include "job/plan/estimate/work_counts.h"
#include "job/plan/resolved_job.h"
#include "job/plan/shard_plan.h"

namespace dotresize {

/// Seconds of a job. A rank's seconds are operations or bytes (work_counts.h) over rates
/// (hardware.h).
///
/// Each of the S stages of a pipeline takes t_s for a microbatch, and B microbatches pass in
///   Σ_s t_s + (B − 1) · max_s t_s:
/// the slowest stage works for B · max t_s, and waits for the others while the pipeline fills.
///
/// Ranks that share fewer cores leave theirs to the others while they wait. They end together when
/// all of the work is done, unless the slowest rank alone takes longer.
class JobTime {
 public:
  JobTime(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan,
          const RankRates& rates);

  /// Checks the vocabulary of the ends, and all sublayers if the first step does not load them.
  PhaseTimes check_weights() const;
  /// Computes the perplexity of the source or of the output. `first`: the model has not been read
  /// before. `windows`: tokens, relative to those of the calibration.
  PhaseTimes evaluate(const ModelConfig& model, bool first, double windows) const;
  /// Evaluates the dense model and the trial of an allocation on the held-out windows
  /// (`method.allocate`).
  PhaseTimes try_choice(const ModelConfig& output) const;
  /// Additional time to evaluate the dense model and the output if their predictions are compared.
  PhaseTimes keep_states(double windows) const;
  PhaseTimes compare(const ModelConfig& output, double windows) const;
  PhaseTimes calibrate() const;
  /// Cuts the dense model's sublayers, before the calibration.
  PhaseTimes cut_sublayers() const;
  /// Distills the layers of the output, and then all of it (`heal`).
  PhaseTimes heal_layers(const ModelConfig& output) const;
  PhaseTimes heal_updates(const ModelConfig& output) const;
  /// Hashes what was read and what was written, in a thread beside two other steps. On a CPU the
  /// thread takes one of their cores.
  PhaseTimes hash(double calibrating, double evaluating) const;

 private:
  PhaseTimes pipeline() const;
  /// Passes over the tokens, for which the stages load their weights.
  PhaseTimes passes_of_pipeline() const;
  PhaseTimes layerwise() const;
  PhaseTimes token_parallel() const;

  template <class Times>
  std::vector<PhaseTimes> of_ranks(const Times& times) const {
    std::vector<PhaseTimes> ranks;
    for (const RankShard& shard : plan_.ranks) ranks.push_back(times(shard));
    return ranks;
  }
  /// Time until the last of `working` ranks is done, as a share of what each takes beside all
  /// others.
  double share_of(double working) const { return std::max(working / ranks_, 1.0 / rates_.alone); }
  /// Time until the last rank is done.
  PhaseTimes side_by_side(const std::vector<PhaseTimes>& ranks) const {
    PhaseTimes last;
    last.add(*std::ranges::max_element(ranks, {}, &PhaseTimes::total), 1.0 / rates_.alone);
    PhaseTimes mean;
    for (const PhaseTimes& rank : ranks) mean.add(rank, 1.0 / ranks_);
    return mean.total() > last.total() ? mean : last;
  }
  /// Time for microbatches that flow through the ranks, one after the other.
  PhaseTimes streamed(const std::vector<PhaseTimes>& ranks) const {
    PhaseTimes times = side_by_side(ranks);
    double sum = 0.0;
    double slowest = 0.0;
    for (const PhaseTimes& rank : ranks) {
      sum += rank.total();
      slowest = std::max(slowest, rank.total());
    }
    times.add("wait", (sum - slowest) / microbatches_ / rates_.alone);
    return times;
  }

  /// Seconds of work that hide background work: all of `seconds`, or 0 if nothing overlaps.
  double beside(double seconds) const { return plan_.ranks.front().overlaps ? seconds : 0.0; }
  bool last(const RankShard& shard) const { return shard.end_sublayer == config_.num_sublayers(); }
  TensorsSize dense_sublayer_size(int64_t sublayer) const {
    return sublayer_size(config_, sublayer, config_.hidden_size, config_.hidden_size,
                         /*folded=*/false);
  }

  /// Seconds to read a part of a model's tensors from disk.
  double disk(double bytes, const ModelConfig& model, bool again) const {
    return disk(bytes, number(stored_bytes(model)), again);
  }
  /// Version for any files. 0 if all of them are read `again` and fit the file cache.
  double disk(double bytes, double model_bytes, bool again) const {
    const double on_host = model_bytes * number(rates_.ranks_per_host) / ranks_;
    return again && on_host <= rates_.cache_bytes ? 0.0 : bytes / rates_.disk_read;
  }
  /// Seconds to write into the journal: an entry is hashed while it is written.
  double put(double bytes) const {
    return std::max(bytes / rates_.disk_write, bytes / rates_.hash);
  }
  /// Seconds to copy stored tensors as `loaded`, to check that they are finite, and to bring them
  /// to the device.
  double convert(const TensorsSize& stored, Dtype loaded) const {
    const double in_memory = number(stored.parameters * size_in_bytes(loaded));
    return (number(stored.bytes) + 2.0 * in_memory) / rates_.host_memory +
           in_memory / rates_.to_device;
  }
  /// Seconds to convert sublayers that ranks take turns to read. GPU ranks read ahead of time, so
  /// side by side.
  double convert_in_turns(const TensorsSize& stored, Dtype loaded) const {
    return convert(stored, loaded) / (rates_.cuda ? ranks_ : 1.0);
  }
  /// Adds the time to read one sublayer while the one before is worked on. On a GPU all of that
  /// overlaps; on a CPU only the system's read-ahead does.
  PhaseTimes read_beside(PhaseTimes work, double disk, double convert) const;
  /// Seconds to send to all other ranks, or to receive from all of them: scattered and gathered.
  double collective(double bytes) const {
    return 2.0 * (ranks_ - 1.0) / ranks_ * bytes / rates_.link;
  }
  /// Held-out windows of an allocation, as a share of all.
  double held_out_share() const;
  double forward(const ForwardCounts& counts) const {
    return counts.gemm / rates_.compute_gemm + counts.shortcut / rates_.float32_gemm +
           counts.attention / rates_.attention + counts.bytes / rates_.memory;
  }
  double forward(const ModelConfig& model, int64_t sublayer, const SublayerWidths& widths,
                 double tokens) const {
    return forward(
        forward_counts(model, sublayer, widths, tokens, seqlen_, job_.resources.compute_dtype));
  }
  void add_moments(PhaseTimes& times, double tokens, double junctions) const;
  int64_t runs_again(const RankShard& shard, int64_t sublayer) const;
  /// Adds the way back of all tokens, `passes` times, through the rank's sublayers and the head.
  void add_backward(PhaseTimes& times, const RankShard& shard, double passes) const;
  PhaseTimes load_stages() const;
  PhaseTimes stream_features(const RankShard& shard) const;
  PhaseTimes share_features() const;
  PhaseTimes remove_features(int64_t sublayer) const;
  double eigen() const { return solve_counts(job_).eigen / rates_.eigen; }
  PhaseTimes solve() const;
  PhaseTimes record(double meanwhile, double disk_write) const;
  /// Number of sublayers in [first, end) whose maps are rotated into each other.
  int64_t aligned(int64_t first, int64_t end) const;
  double align(int64_t sublayers) const;
  PhaseTimes fold_stages() const;
  PhaseTimes fold_stage(const ModelConfig& output, const RankShard& shard) const;
  PhaseTimes solve_over_ranks() const;

  const ModelConfig& config_;
  const ResolvedJob& job_;
  const ShardPlan& plan_;
  const RankRates& rates_;
  const bool is_pipeline_;
  const bool packs_;  ///< Gram matrices are packed (CalibrationJob::halves_precision)
  const double d_;
  const double k_;
  const double ranks_;
  const int64_t mapped_;
  const int64_t summed_;
  const int64_t seqlen_;
  const double tokens_;
  const double microbatches_;
  const double microbatch_tokens_;
  // Passes of all calibration tokens through the pipeline.
  const double forward_passes_;
  const double backward_passes_;
  /// Number of tokens that takes a rank as long as the busiest one: whole microbatches are dealt
  /// out.
  double share_of_tokens_ = 0.0;
};

}  // namespace dotresize
