// A rank's seconds are operations or bytes (work_counts.h) over rates (hardware.h).
//
// In a pipeline each of S stages takes t_s for a microbatch, and B of them pass in
//   Σ_s t_s + (B − 1) · max_s t_s:
// the slowest stage works for B · max t_s, and waits for the others while the pipeline fills.
#include "job/plan/time_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "base/human_text.h"
#include "job/model/model_size.h"
#include "job/plan/hardware.h"
#include "job/plan/net_size.h"
#include "job/plan/token_windows.h"
#include "job/plan/work_counts.h"

namespace dotresize {
namespace {

using Phase = TimeEstimate::Phase;

/// The Gram matrix is summed over so many tokens at a time (worker/maps/moments.cpp).
constexpr int64_t kGramBlockTokens = 1024;

double number(int64_t value) { return static_cast<double>(value); }

/// Times of a rank or of a job, one entry a phase.
class PhaseTimes {
 public:
  void add(const std::string& name, double seconds) {
    if (!(seconds > 0.0)) return;
    const auto found = std::ranges::find(phases_, name, &Phase::name);
    if (found == phases_.end()) {
      phases_.push_back({name, seconds});
    } else {
      found->seconds += seconds;
    }
  }
  void add(const PhaseTimes& other) {
    for (const Phase& phase : other.phases_) add(phase.name, phase.seconds);
  }
  double total() const {
    return std::transform_reduce(phases_.begin(), phases_.end(), 0.0, std::plus<>(),
                                 [](const Phase& phase) { return phase.seconds; });
  }
  const std::vector<Phase>& phases() const { return phases_; }

 private:
  std::vector<Phase> phases_;
};

const PhaseTimes& slowest(const std::vector<PhaseTimes>& ranks) {
  return *std::ranges::max_element(ranks, {}, &PhaseTimes::total);
}

/// Microbatches that flow through the ranks, one after the other.
PhaseTimes streamed(const std::vector<PhaseTimes>& ranks, double microbatches) {
  PhaseTimes times = slowest(ranks);
  const double all = std::transform_reduce(ranks.begin(), ranks.end(), 0.0, std::plus<>(),
                                           [](const PhaseTimes& rank) { return rank.total(); });
  times.add("wait", (all - times.total()) / microbatches);
  return times;
}

class JobTime {
 public:
  JobTime(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan,
          const RankRates& rates)
      : config_(config), job_(job), plan_(plan), rates_(rates) {}

  /// Every rank reads its weights once, before any work.
  PhaseTimes check_weights() const {
    return slowest(of_ranks([&](const RankShard& shard) {
      PhaseTimes times;
      times.add("read", from_disk(number(shard.bytes), config_, job_.source_dtype,
                                  job_.source_dtype, /*again=*/false));
      return times;
    }));
  }
  /// Perplexity of the source or of the output.
  PhaseTimes evaluate(const ModelConfig& model, Dtype stored) const;
  PhaseTimes calibrate() const {
    return job_.schedule.name == "pipeline" ? pipeline() : token_parallel();
  }
  /// Of what was written and of what was read.
  PhaseTimes hash() const;

 private:
  PhaseTimes pipeline() const;
  PhaseTimes token_parallel() const;

  /// Passes of all calibration tokens through the dense model.
  double forward_passes() const { return job_.method.passes(); }

  template <class Times>
  std::vector<PhaseTimes> of_ranks(const Times& times) const {
    std::vector<PhaseTimes> ranks;
    for (const RankShard& shard : plan_.ranks) ranks.push_back(times(shard));
    return ranks;
  }
  int64_t mapped() const { return mapped_junctions(config_, job_.head_sliced); }
  /// Of the junctions that the rank owns.
  int64_t mapped(const RankShard& shard) const {
    return std::min(shard.end_sublayer, mapped() - 1) - shard.first_sublayer +
           (shard.first_sublayer == 0 ? 1 : 0);
  }
  bool last(const RankShard& shard) const { return shard.end_sublayer == config_.num_sublayers(); }
  double ranks() const { return number(job_.ranks); }
  int64_t seqlen() const { return expected_seqlen(job_, config_); }
  double tokens() const { return number(expected_samples(job_) * seqlen()); }
  double microbatches() const {
    const int64_t samples = microbatch_samples(seqlen());
    return number((expected_samples(job_) + samples - 1) / samples);
  }
  double microbatch_tokens() const { return number(microbatch_samples(seqlen()) * seqlen()); }
  double d() const { return number(config_.hidden_size); }
  double k() const { return number(job_.widths.largest()); }

  double from_disk(double bytes, const ModelConfig& model, Dtype stored, Dtype loaded,
                   bool again) const;
  double to_device(double bytes) const { return bytes / rates_.to_device; }
  /// To all other ranks, or from all of them: scattered and gathered.
  double collective(double bytes) const {
    return 2.0 * (ranks() - 1.0) / ranks() * bytes / rates_.link;
  }
  double forward(const ForwardCounts& counts) const {
    return counts.gemm / rates_.compute_gemm + counts.shortcut / rates_.float32_gemm +
           counts.attention / rates_.attention + counts.bytes / rates_.memory;
  }
  double forward(const ModelConfig& model, int64_t sublayer, const SublayerWidths& widths,
                 double tokens) const {
    return forward(forward_counts(model, sublayer, widths, tokens, seqlen(), job_.compute_dtype));
  }
  void add_moments(PhaseTimes& times, double tokens, double junctions) const;
  void add_eigen(PhaseTimes& times, double junctions) const;
  void add_solve(PhaseTimes& times, double junctions) const;
  double fold_seconds(const FoldCounts& counts) const {
    return (counts.in_proj + counts.out_proj) / rates_.fold_gemm;
  }
  double fold_vocabulary() const {
    return 2.0 * number(config_.vocab_size) * d() * k() / rates_.fold_gemm;
  }
  double written_bytes(const ModelConfig& output, const RankShard& shard) const {
    return number(shard_parameters(output, shard.first_sublayer, shard.end_sublayer) *
                  size_in_bytes(job_.output_dtype));
  }
  ModelConfig output() const { return output_model_config(config_, job_, job_.widths); }
  PhaseTimes fold_stage(const ModelConfig& output, const RankShard& shard) const;
  PhaseTimes solve_in_token_parallel(double tokens) const;

  const ModelConfig& config_;
  const ResolvedJob& job_;
  const ShardPlan& plan_;
  const RankRates& rates_;
};

/// Reads `bytes` of tensors stored as one dtype into memory as another one, and checks that they
/// are finite.
double JobTime::from_disk(double bytes, const ModelConfig& model, Dtype stored, Dtype loaded,
                          bool again) const {
  const double on_host = number(stored_parameters(model) * size_in_bytes(stored)) *
                         number(rates_.ranks_per_host) / ranks();
  const bool cached = again && on_host <= rates_.cache_bytes;
  const double in_memory = bytes * number(size_in_bytes(loaded)) / number(size_in_bytes(stored));
  return (cached ? 0.0 : bytes / rates_.disk_read) + (bytes + 2.0 * in_memory) / rates_.host_memory;
}

PhaseTimes JobTime::evaluate(const ModelConfig& model, Dtype stored) const {
  const std::vector<PhaseTimes> loading = of_ranks([&](const RankShard& shard) {
    const double parameters =
        number(shard_parameters(model, shard.first_sublayer, shard.end_sublayer));
    PhaseTimes times;
    times.add("read", from_disk(parameters * number(size_in_bytes(stored)), model, stored,
                                job_.compute_dtype, /*again=*/true) +
                          to_device(parameters * number(size_in_bytes(job_.compute_dtype))));
    return times;
  });
  const std::vector<PhaseTimes> stages = of_ranks([&](const RankShard& shard) {
    PhaseTimes times;
    for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
      times.add("forward", forward(model, s, widths_of(model, s), tokens()));
    }
    if (last(shard)) {
      times.add("forward", forward(head_counts(model, model.junction_widths.back(), tokens(),
                                               job_.compute_dtype)));
    }
    return times;
  });
  PhaseTimes times = slowest(loading);
  times.add(streamed(stages, microbatches()));
  return times;
}

void JobTime::add_moments(PhaseTimes& times, double tokens, double junctions) const {
  const MomentCounts counts = moment_counts(job_);
  const double blocks = tokens / std::min<double>(microbatch_tokens(), kGramBlockTokens);
  const double gram =
      tokens * counts.gram / (rates_.cuda ? rates_.float32_gemm : rates_.float64_gemm) +
      blocks * gram_block_bytes(config_.hidden_size) / rates_.memory;
  times.add("gram", junctions * gram);
  times.add("rotate", junctions * tokens * counts.rotate / rates_.float32_gemm);
  times.add("cost", junctions * tokens * counts.pairs / rates_.l1_cost);
}

void JobTime::add_eigen(PhaseTimes& times, double junctions) const {
  times.add("eigen", junctions * solve_counts(job_).eigen / rates_.eigen);
}

void JobTime::add_solve(PhaseTimes& times, double junctions) const {
  const SolveCounts counts = solve_counts(job_);
  times.add("sinkhorn", junctions * counts.sinkhorn / rates_.sinkhorn);
  times.add("qr", junctions * counts.qr / rates_.qr);
  times.add("condition", junctions * counts.condition / rates_.host_memory);
  times.add("solve", junctions * counts.solve / rates_.float64_gemm);
}

/// Reading ahead and writing go on while a rank folds.
PhaseTimes JobTime::fold_stage(const ModelConfig& output, const RankShard& shard) const {
  double fold = shard.first_sublayer == 0 ? fold_vocabulary() : 0.0;
  if (last(shard) && job_.head_sliced) fold += fold_vocabulary();
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
    fold += fold_seconds(fold_counts(config_, s, job_.widths.largest()));
  }
  const double read =
      from_disk(number(shard.bytes), config_, job_.source_dtype, Dtype::kFloat32, /*again=*/true) +
      to_device(number(4 * shard.parameters));
  const double write = written_bytes(output, shard) / rates_.disk_write;
  PhaseTimes times;
  times.add("read", rates_.cuda ? std::max(0.0, read - fold) : read);
  times.add("fold", fold);
  times.add("write", std::max(0.0, write - fold));
  return times;
}

PhaseTimes JobTime::pipeline() const {
  PhaseTimes times = slowest(of_ranks([&](const RankShard& shard) {
    PhaseTimes loading;
    loading.add("read",
                from_disk(number(shard.bytes), config_, job_.source_dtype, job_.compute_dtype,
                          /*again=*/true) +
                    to_device(number(shard.parameters * size_in_bytes(job_.compute_dtype))));
    return loading;
  }));
  times.add(streamed(of_ranks([&](const RankShard& shard) {
                       PhaseTimes stage;
                       const int64_t end = std::min(shard.end_sublayer, mapped() - 1);
                       for (int64_t s = shard.first_sublayer; s < end; ++s) {
                         stage.add("forward",
                                   forward_passes() *
                                       forward(config_, s, widths_of(config_, s), tokens()));
                       }
                       add_moments(stage, tokens(), number(mapped(shard)));
                       const double sending = forward_passes() * 4.0 * tokens() * d() / rates_.link;
                       stage.add("communicate", sending - stage.total());
                       return stage;
                     }),
                     microbatches()));
  times.add(slowest(of_ranks([&](const RankShard& shard) {
    PhaseTimes solving;
    add_eigen(solving, number(mapped(shard)));
    add_solve(solving, number(mapped(shard)));
    return solving;
  })));
  const ModelConfig model = output();
  times.add(slowest(of_ranks([&](const RankShard& shard) { return fold_stage(model, shard); })));
  return times;
}

/// One junction, from its moments to x·M: the owner decomposes and solves, the others wait.
PhaseTimes JobTime::solve_in_token_parallel(double tokens) const {
  PhaseTimes times;
  add_moments(times, tokens, 1.0);
  double moved = 8.0 * d() * d();
  if (job_.method.transport()) moved += 8.0 * d() * d();
  if (job_.method.passes() > 1) moved += 4.0 * d() * d();
  moved += 16.0 * d() * k();
  add_eigen(times, 1.0);
  add_solve(times, 1.0);
  times.add("communicate", collective(moved));
  times.add("forward", 2.0 * tokens * d() * k() / rates_.float32_gemm);
  return times;
}

PhaseTimes JobTime::token_parallel() const {
  // Whole microbatches are dealt out.
  const double share = std::ceil(microbatches() / ranks()) / microbatches() * tokens();
  const double embedding = number(config_.vocab_size) * d();
  PhaseTimes times;
  times.add("read", from_disk(embedding * number(size_in_bytes(job_.source_dtype)), config_,
                              job_.source_dtype, Dtype::kFloat32, /*again=*/true) +
                        to_device(4.0 * embedding));
  times.add("communicate", collective(4.0 * embedding));
  for (int64_t junction = 0; junction < mapped(); ++junction) {
    times.add(solve_in_token_parallel(share));
  }
  times.add("fold", fold_vocabulary() * (job_.head_sliced ? 2.0 : 1.0));

  const int64_t width = job_.widths.largest();
  for (int64_t s = 0; s < config_.num_sublayers(); ++s) {
    const auto parameters =
        number(sublayer_parameters(config_, s, config_.hidden_size, config_.hidden_size, false));
    times.add("read", from_disk(parameters * number(size_in_bytes(job_.source_dtype)), config_,
                                job_.source_dtype, Dtype::kFloat32, /*again=*/true) +
                          to_device(4.0 * parameters));
    times.add("fold", fold_seconds(fold_counts(config_, s, width)));
    if (s + 1 >= mapped()) continue;
    const auto sent = number(sublayer_parameters(config_, s, width, config_.hidden_size, false) +
                             width * config_.hidden_size);
    times.add("communicate", collective(sent * number(size_in_bytes(job_.compute_dtype))));
    times.add("forward",
              forward(config_, s, {width, config_.hidden_size, /*shortcut=*/true}, share));
  }
  const ModelConfig model = output();
  const double write = slowest(of_ranks([&](const RankShard& shard) {
                         PhaseTimes writing;
                         writing.add("write", written_bytes(model, shard) / rates_.disk_write);
                         return writing;
                       })).total();
  times.add("write", write - times.total());  // it goes on all the time
  return times;
}

PhaseTimes JobTime::hash() const {
  const double source = number(stored_parameters(config_) * size_in_bytes(job_.source_dtype));
  const ModelConfig model = output();
  return slowest(of_ranks([&](const RankShard& shard) {
    PhaseTimes times;
    times.add("hash", (written_bytes(model, shard) + source / ranks()) / rates_.hash);
    return times;
  }));
}

std::string seconds_text(double seconds) {
  return seconds < 100.0 ? fmt::format("{:.2f}", seconds) : with_separators(std::llround(seconds));
}

}  // namespace

double TimeEstimate::total() const {
  return std::transform_reduce(phases.begin(), phases.end(), 0.0, std::plus<>(),
                               [](const Phase& phase) { return phase.seconds; });
}

TimeEstimate estimate_time(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan,
                           const v1::Hardware& hardware) {
  const RankRates rates = rank_rates(hardware, job);
  const JobTime time(config, job, plan, rates);
  PhaseTimes times = time.check_weights();
  if (job.evaluation) times.add("evaluate_dense", time.evaluate(config, job.source_dtype).total());
  times.add(time.calibrate());
  times.add(time.hash());
  if (job.evaluation) {
    const ModelConfig output = output_model_config(config, job, job.widths);
    times.add("evaluate_compressed", time.evaluate(output, job.output_dtype).total());
  }
  return {times.phases()};
}

std::string time_table(const TimeEstimate& time) {
  const double total = time.total();
  std::vector<std::vector<std::string>> rows = {{"phase", "s", "share"}};
  for (const Phase& phase : time.phases) {
    rows.push_back({phase.name, seconds_text(phase.seconds),
                    fmt::format("{:.1f} %", 100.0 * phase.seconds / total)});
  }
  std::string table = format_table(rows, {Align::kLeft, Align::kRight, Align::kRight});
  table.pop_back();
  return "time        " + format_duration(total) + "\n" + table;
}

}  // namespace dotresize
