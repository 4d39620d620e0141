#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "job/model/model_config.h"
#include "job/model/model_size.h"
#include "job/plan/estimate/hardware.h"
#include "job/plan/estimate/phase_times.h"
#include "job/plan/steps/passes.h"
#include "job/plan/steps/step.h"

namespace dotresize {

/// Counts of a job turned into seconds: operations and bytes over the rates of a rank (hardware.h),
/// and the ranks beside each other. Each step has its seconds in job/plan/steps/.
///
/// Each of the S stages of a pipeline takes t_s for a microbatch, and B microbatches pass in
///   Σ_s t_s + (B − 1) · max_s t_s:
/// the slowest stage works for B · max t_s, and waits for the others while the pipeline fills.
///
/// Ranks that share fewer cores leave theirs to the others while they wait. They end together when
/// all of the work is done, unless the slowest rank alone takes longer.
struct JobTime : JobParts {
  JobTime(const JobParts& parts, const RankRates& machine);

  /// Time until the last of `working` ranks is done, as a share of what each takes beside all
  /// others.
  double share_of(double working) const { return std::max(working / ranks, 1.0 / rates.alone); }
  using TimesOfRank = std::function<PhaseTimes(const RankShard& shard)>;
  /// Mean of the ranks' times, and the mean time that they wait for the last one.
  PhaseTimes side_by_side(const TimesOfRank& times) const;
  /// Time for microbatches that flow through the ranks, one after the other.
  PhaseTimes streamed(const TimesOfRank& times) const;
  /// Mean of the ranks' times while `working` ranks do this work each, and the others wait for them
  /// in a collective.
  PhaseTimes in_turn(const PhaseTimes& work, double working = 1.0) const;

  /// Seconds of work that hide background work: all of `seconds`, or 0 if nothing overlaps.
  double beside(double seconds) const { return plan.ranks.front().overlaps ? seconds : 0.0; }
  bool last(const RankShard& shard) const { return shard.end_sublayer == config.num_sublayers(); }
  TensorsSize dense_sublayer_size(int64_t sublayer) const {
    return sublayer_size(config, sublayer, config.hidden_size, config.hidden_size,
                         /*folded=*/false);
  }

  /// Seconds to read a part of a model's tensors from disk.
  double disk(double bytes, const ModelConfig& model, bool again) const {
    return disk(bytes, number(stored_bytes(model)), again);
  }
  /// Version for any files. 0 if all of them are read `again` and fit the file cache.
  double disk(double bytes, double model_bytes, bool again) const {
    const double on_host = model_bytes * number(rates.ranks_per_host) / ranks;
    return again && on_host <= rates.cache_bytes ? 0.0 : bytes / rates.disk_read;
  }
  /// Seconds to write into the journal: an entry is hashed while it is written.
  double put(double bytes) const { return std::max(bytes / rates.disk_write, bytes / rates.hash); }
  /// Seconds to copy stored tensors as `loaded`, to check that they are finite, and to bring them
  /// to the device.
  double convert(const TensorsSize& stored, Dtype loaded) const {
    const double in_memory = number(stored.parameters * size_in_bytes(loaded));
    return (number(stored.bytes) + 2.0 * in_memory) / rates.host_memory +
           in_memory / rates.to_device;
  }
  /// Adds the time to read one sublayer while the one before is worked on. On a GPU all of that
  /// overlaps; on a CPU only the system's read-ahead does.
  PhaseTimes read_beside(PhaseTimes work, double disk, double convert) const;
  /// Version for sublayers that ranks take turns to read. GPU ranks convert them ahead of time, so
  /// side by side. `again`: the model has been read before.
  PhaseTimes read_in_turns(const PhaseTimes& work, const TensorsSize& read, Dtype loaded,
                           const ModelConfig& model, bool again = true) const;
  /// Seconds to send to all other ranks, or to receive from all of them: scattered and gathered.
  double collective(double bytes) const { return 2.0 * (ranks - 1.0) / ranks * bytes / rates.link; }
  double forward(const ForwardCounts& counts) const {
    return counts.gemm / rates.compute_gemm + counts.shortcut / rates.float32_gemm +
           counts.attention / rates.attention + counts.bytes / rates.memory;
  }
  /// Seconds for tokens in a sublayer with these widths, or with those of the model; and in a head.
  double forward(const ModelConfig& model, int64_t sublayer, const SublayerWidths& widths,
                 double of_tokens) const {
    return forward(
        forward_counts(model, sublayer, widths, of_tokens, seqlen, job.resources.compute_dtype));
  }
  double forward(const ModelConfig& model, int64_t sublayer, double of_tokens) const {
    return forward(model, sublayer, widths_of(model, sublayer), of_tokens);
  }
  double head(const ModelConfig& model, int64_t width, double of_tokens) const {
    return forward(head_counts(model, width, of_tokens, job.resources.compute_dtype));
  }
  /// Seconds to add tokens to Gram matrices of this width: operations per token, and blocks.
  double gram(double of_tokens, double operations, double width, double matrices = 1.0) const;

  const RankRates& rates;
  const bool packs;  ///< Gram matrices are packed (CalibrationJob::halves_precision)
  const double d;
  const double k;
  const double ranks;
  const int64_t mapped;  ///< junctions with a map
  const int64_t summed;  ///< junctions whose moments are taken
  const int64_t seqlen;
  const double tokens;
  const double microbatches;
  const double microbatch_tokens;
  /// Number of tokens that takes a rank as long as the busiest one: whole microbatches are dealt
  /// out.
  const double share_of_tokens;
};

// Seconds of passes over the tokens, from the counts of passes.h.

/// Loads the ranks' stages, for passes over the tokens.
PhaseTimes load_stages(const JobTime& t);
/// Number of times that a sublayer runs forward on the way back.
int64_t runs_again(const JobTime& t, const RankShard& shard, int64_t sublayer);
/// Seconds of a sublayer's way back: it runs forward `again` times, and its gradients are taken.
double backward_seconds(const JobTime& t, const ModelConfig& model, int64_t sublayer, double tokens,
                        int64_t again);
/// Adds the way back of all tokens, `passes` times, through the rank's sublayers and the head.
void add_backward(const JobTime& t, const RankShard& shard, double passes, PhaseTimes& times);

}  // namespace dotresize
