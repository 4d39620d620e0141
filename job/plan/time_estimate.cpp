// A rank's seconds are operations or bytes (work_counts.h) over rates (hardware.h).
//
// In a pipeline each of S stages takes t_s for a microbatch, and B of them pass in
//   Σ_s t_s + (B − 1) · max_s t_s:
// the slowest stage works for B · max t_s, and waits for the others while the pipeline fills.
//
// Ranks that share fewer cores leave theirs to the others while they wait: they are done together
// when all of the work is, unless the slowest rank alone takes longer.
#include "job/plan/time_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "base/human_text.h"
#include "job/model/model_size.h"
#include "job/plan/block_sizes.h"
#include "job/plan/hardware.h"
#include "job/plan/net_size.h"
#include "job/plan/token_windows.h"
#include "job/plan/traffic.h"
#include "job/plan/work_counts.h"

namespace dotresize {
namespace {

using Phase = TimeEstimate::Phase;

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
  /// `share` of the other times.
  void add(const PhaseTimes& other, double share = 1.0) {
    for (const Phase& phase : other.phases_) add(phase.name, share * phase.seconds);
  }
  double total() const {
    return std::transform_reduce(phases_.begin(), phases_.end(), 0.0, std::plus<>(),
                                 [](const Phase& phase) { return phase.seconds; });
  }
  const std::vector<Phase>& phases() const { return phases_; }

 private:
  std::vector<Phase> phases_;
};

double sum(const std::vector<PhaseTimes>& ranks) {
  return std::transform_reduce(ranks.begin(), ranks.end(), 0.0, std::plus<>(),
                               [](const PhaseTimes& rank) { return rank.total(); });
}

const PhaseTimes& slowest(const std::vector<PhaseTimes>& ranks) {
  return *std::ranges::max_element(ranks, {}, &PhaseTimes::total);
}

class JobTime {
 public:
  JobTime(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan,
          const RankRates& rates)
      : config_(config), job_(job), plan_(plan), rates_(rates) {}

  /// The ends' vocabulary, and all sublayers if the first step does not load them.
  PhaseTimes check_weights() const;
  /// Perplexity of the source (`first`: which nobody has read yet) or of the output.
  PhaseTimes evaluate(const ModelConfig& model, Dtype stored, bool first) const;
  /// What evaluating the dense model and the output takes longer if their predictions are compared.
  PhaseTimes keep_states() const;
  PhaseTimes compare(const ModelConfig& output) const;
  PhaseTimes calibrate() const;
  /// Of the dense model, before the calibration.
  PhaseTimes cut_mlps() const;
  /// Of what was read and of what was written, by a thread beside two other steps. On a CPU its
  /// core is one of theirs.
  PhaseTimes hash(double calibrating, double evaluating) const;

 private:
  PhaseTimes pipeline() const;
  /// Of the stages, whose weights are loaded for it.
  PhaseTimes passes_of_pipeline() const;
  /// Statistics that are saved, and those that are read.
  PhaseTimes keep_statistics() const;
  PhaseTimes layerwise() const;
  PhaseTimes token_parallel() const;

  bool is_pipeline() const { return job_.schedule.pipelined; }
  /// Passes of all calibration tokens through the pipeline.
  double forward_passes() const { return number(job_.method.passes() * plan_.junction_groups); }
  double backward_passes() const { return job_.gradients() ? number(plan_.junction_groups) : 0.0; }

  template <class Times>
  std::vector<PhaseTimes> of_ranks(const Times& times) const {
    std::vector<PhaseTimes> ranks;
    for (const RankShard& shard : plan_.ranks) ranks.push_back(times(shard));
    return ranks;
  }
  /// Until the last of `working` ranks is done, as a share of what each takes beside all others.
  double share_of(double working) const { return std::max(working / ranks(), 1.0 / rates_.alone); }
  /// Until the last rank is done.
  PhaseTimes side_by_side(const std::vector<PhaseTimes>& ranks) const {
    PhaseTimes last;
    last.add(slowest(ranks), 1.0 / rates_.alone);
    PhaseTimes mean;
    for (const PhaseTimes& rank : ranks) mean.add(rank, 1.0 / this->ranks());
    return mean.total() > last.total() ? mean : last;
  }
  /// Microbatches that flow through the ranks, one after the other.
  PhaseTimes streamed(const std::vector<PhaseTimes>& ranks) const {
    PhaseTimes times = side_by_side(ranks);
    times.add("wait", (sum(ranks) - slowest(ranks).total()) / microbatches() / rates_.alone);
    return times;
  }

  int64_t mapped() const { return mapped_junctions(config_, job_.head_sliced); }
  int64_t summed() const { return summed_junctions(config_, job_); }
  /// Of the junctions that the rank owns.
  int64_t mapped(const RankShard& shard) const { return shard.junctions(mapped()); }
  /// What hides background work of as many seconds.
  double beside(double seconds) const { return plan_.ranks.front().overlaps ? seconds : 0.0; }
  bool last(const RankShard& shard) const { return shard.end_sublayer == config_.num_sublayers(); }
  double ranks() const { return number(job_.ranks); }
  int64_t seqlen() const { return expected_seqlen(job_, config_); }
  double tokens() const { return number(expected_samples(job_) * seqlen()); }
  double microbatches() const {
    const int64_t samples = microbatch_samples(seqlen());
    return number((expected_samples(job_) + samples - 1) / samples);
  }
  double microbatch_tokens() const { return number(microbatch_samples(seqlen()) * seqlen()); }
  /// Tokens that take a rank as long as the one that has most: whole microbatches are dealt out.
  double share_of_tokens() const {
    const double most = std::ceil(microbatches() / ranks());
    return most / microbatches() * tokens() * share_of(microbatches() / most);
  }
  double d() const { return number(config_.hidden_size); }
  double k() const { return number(job_.widths.largest()); }
  double stored_bytes(const ModelConfig& model, Dtype stored) const {
    return number(stored_parameters(model) * size_in_bytes(stored));
  }
  double written_bytes(const ModelConfig& output, const RankShard& shard) const {
    return number(shard_parameters(output, shard.first_sublayer, shard.end_sublayer) *
                  size_in_bytes(job_.output_dtype));
  }
  ModelConfig output() const { return output_model_config(config_, job_, job_.widths); }

  /// From the disk, or if all of the model is read `again` and fits it, from its cache.
  double disk(double bytes, double model_bytes, bool again) const {
    const double on_host = model_bytes * number(rates_.ranks_per_host) / ranks();
    return again && on_host <= rates_.cache_bytes ? 0.0 : bytes / rates_.disk_read;
  }
  /// Copied as another dtype, checked to be finite, and brought to the device.
  double convert(double parameters, Dtype stored, Dtype loaded) const {
    const double in_memory = parameters * number(size_in_bytes(loaded));
    return (parameters * number(size_in_bytes(stored)) + 2.0 * in_memory) / rates_.host_memory +
           in_memory / rates_.to_device;
  }
  /// Of sublayers that ranks take turns to read: on GPUs ahead of time, so side by side.
  double convert_in_turns(double parameters, Dtype stored, Dtype loaded) const {
    return convert(rates_.cuda ? parameters / ranks() : parameters, stored, loaded);
  }
  /// Reads one sublayer while the last one is worked on: on a GPU all of it, on a CPU the system
  /// reads ahead alone.
  PhaseTimes read_beside(PhaseTimes work, double disk, double convert) const;
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
  /// Of the rank's sublayers, and the head of the last one, for the gradients of all junctions.
  void add_gradients(PhaseTimes& times, const RankShard& shard) const;
  /// The way back of all tokens, `passes` times, through the rank's sublayers and the head.
  void add_backward(PhaseTimes& times, const RankShard& shard, double passes) const;
  PhaseTimes load_stages() const;
  PhaseTimes stream_features(const RankShard& shard) const;
  PhaseTimes share_features() const;
  PhaseTimes remove_features(int64_t sublayer) const;
  double eigen() const { return solve_counts(job_).eigen / rates_.eigen; }
  PhaseTimes solve() const;
  PhaseTimes record(double meanwhile, double disk_write) const;
  /// Maps of the sublayers from `first` to `end` that are rotated into each other.
  int64_t aligned(int64_t first, int64_t end) const;
  double align(int64_t sublayers) const;
  double fold_seconds(const FoldCounts& counts) const {
    return (counts.in_proj + counts.out_proj) / rates_.fold_gemm;
  }
  double fold_vocabulary() const {
    return 2.0 * number(config_.vocab_size) * d() * k() / rates_.fold_gemm;
  }
  PhaseTimes fold_stages() const;
  PhaseTimes fold_stage(const ModelConfig& output, const RankShard& shard) const;
  PhaseTimes solve_over_ranks() const;

  const ModelConfig& config_;
  const ResolvedJob& job_;
  const ShardPlan& plan_;
  const RankRates& rates_;
};

PhaseTimes JobTime::read_beside(PhaseTimes work, double disk, double convert) const {
  const double ahead = rates_.cuda ? disk + convert : disk;
  const double left = std::max(0.0, ahead - work.total()) + (rates_.cuda ? 0.0 : convert);
  work.add("read", left);
  return work;
}

PhaseTimes JobTime::check_weights() const {
  const double bytes = number(size_in_bytes(job_.source_dtype));
  return side_by_side(of_ranks([&](const RankShard& shard) {
    double parameters = number(config_.vocab_size) * d() *
                        ((shard.first_sublayer == 0 ? 1.0 : 0.0) + (last(shard) ? 1.0 : 0.0));
    if (checks_sublayers_first(job_)) parameters = number(shard.parameters);
    PhaseTimes times;
    times.add("read", disk(parameters * bytes, stored_bytes(config_, job_.source_dtype), false) +
                          parameters * bytes / rates_.host_memory);
    return times;
  }));
}

/// Each rank takes its share of the tokens through one sublayer after the other, of which it reads
/// a part and gets the rest from the other ranks; then all read the head.
PhaseTimes JobTime::evaluate(const ModelConfig& model, Dtype stored, bool first) const {
  const double tokens = share_of_tokens();
  const double head = number(model.vocab_size * model.junction_widths.back());
  const double sublayers =
      number(stored_parameters(model)) - head - (model.tie_word_embeddings ? 0.0 : head);
  PhaseTimes work;
  for (int64_t s = 0; s < model.num_sublayers(); ++s) {
    work.add("forward", forward(model, s, widths_of(model, s), tokens));
  }
  work.add("forward",
           forward(head_counts(model, model.junction_widths.back(), tokens, job_.compute_dtype)));
  const double size = number(size_in_bytes(stored));
  PhaseTimes times =
      read_beside(work, disk(sublayers * size / ranks(), stored_bytes(model, stored), !first),
                  convert_in_turns(sublayers, stored, job_.compute_dtype));
  times.add("read", disk(head * size, stored_bytes(model, stored), true) +
                        convert(head, stored, job_.compute_dtype));
  times.add("communicate", collective(sublayers * number(size_in_bytes(job_.compute_dtype))));
  return times;
}

PhaseTimes JobTime::keep_states() const {
  const double bytes =
      number(kept_states_bytes(config_, job_, expected_samples(job_) * seqlen())) / ranks();
  PhaseTimes times;
  times.add("journal", bytes / rates_.disk_write + bytes / rates_.hash);
  return times;
}

PhaseTimes JobTime::compare(const ModelConfig& output) const {
  const double tokens = share_of_tokens();
  const double head = number(config_.vocab_size * config_.hidden_size);
  const double states = number(kept_states_bytes(config_, job_, expected_samples(job_) * seqlen()));
  PhaseTimes times;
  times.add("forward",
            forward(head_counts(config_, config_.hidden_size, tokens, job_.compute_dtype)) +
                forward(comparison_counts(output, tokens)));
  times.add("read", disk(head * number(size_in_bytes(job_.source_dtype)),
                         stored_bytes(config_, job_.source_dtype), true) +
                        convert(head, job_.source_dtype, job_.compute_dtype) +
                        disk(states / ranks(), states, true));
  return times;
}

PhaseTimes JobTime::calibrate() const {
  if (is_pipeline()) return pipeline();
  return job_.schedule.name == "layerwise" ? layerwise() : token_parallel();
}

void JobTime::add_moments(PhaseTimes& times, double tokens, double junctions) const {
  const MomentCounts counts = moment_counts(job_);
  const double blocks = tokens / std::min<double>(microbatch_tokens(), kGramBlockTokens);
  const double gram =
      tokens * counts.gram / (rates_.cuda ? rates_.float32_gemm : rates_.float64_gemm) +
      (job_.gradients() ? 2.0 : 1.0) * blocks * gram_block_bytes(config_.hidden_size) /
          rates_.memory;
  times.add("gram", junctions * gram);
  times.add("rotate", junctions * tokens * counts.rotate / rates_.float32_gemm);
  times.add("cost", junctions * tokens * counts.pairs / rates_.l1_cost);
}

void JobTime::add_backward(PhaseTimes& times, const RankShard& shard, double passes) const {
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
    const double once = forward(config_, s, widths_of(config_, s), tokens());
    times.add("backward", passes * number(kBackwardPasses) * once);
  }
  if (!last(shard)) return;
  // The logits twice, and a product with their gradients.
  times.add("backward",
            3.0 * passes *
                forward(head_counts(config_, config_.hidden_size, tokens(), job_.compute_dtype)));
}

void JobTime::add_gradients(PhaseTimes& times, const RankShard& shard) const {
  if (!job_.gradients()) return;
  for (int64_t s = shard.end_run(summed()); s < shard.end_sublayer; ++s) {
    times.add("forward", forward_passes() * forward(config_, s, widths_of(config_, s), tokens()));
  }
  add_backward(times, shard, backward_passes());
}

/// A rank's part of the passes for the features of its MLPs.
PhaseTimes JobTime::stream_features(const RankShard& shard) const {
  const double groups = number(plan_.mlp_groups);
  const double back = job_.gradients() ? groups : 0.0;
  const double blocks = tokens() / std::min<double>(microbatch_tokens(), kGramBlockTokens);
  const double gemm = rates_.cuda ? rates_.float32_gemm : rates_.float64_gemm;
  PhaseTimes stage;
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
    const MlpCutCounts counts = mlp_cut_counts(config_, job_, s);
    stage.add("forward", groups * forward(config_, s, widths_of(config_, s), tokens()));
    stage.add("gram", tokens() * counts.gram / gemm + blocks * counts.blocks / rates_.memory);
    if (job_.gradients() && !is_attention(s)) {
      stage.add("gram", tokens() * 1.125 * d() * d() / gemm +
                            blocks * gram_block_bytes(config_.hidden_size) / rates_.memory);
    }
  }
  if (back > 0.0) add_backward(stage, shard, back);
  stage.add("communicate", (groups + back) * 4.0 * tokens() * d() / rates_.link - stage.total());
  return stage;
}

/// All tokens through one sublayer after the other, through MLPs twice: the bounds of their sums
/// are found first. One rank removes the features while the others wait.
PhaseTimes JobTime::share_features() const {
  const double share = share_of_tokens();
  const double blocks = share / std::min<double>(microbatch_tokens(), kGramBlockTokens);
  const double gemm = rates_.cuda ? rates_.float32_gemm : rates_.float64_gemm;
  PhaseTimes work;
  double read = 0.0;
  for (int64_t s = 0; s < config_.num_sublayers(); ++s) {
    const MlpCutCounts counts = mlp_cut_counts(config_, job_, s);
    const double times = is_attention(s) ? 1.0 : 2.0;
    work.add("forward", times * forward(config_, s, widths_of(config_, s), share));
    work.add("gram", share * counts.gram / gemm + blocks * counts.blocks / rates_.memory);
    const auto parameters =
        number(sublayer_parameters(config_, s, config_.hidden_size, config_.hidden_size, false));
    read += parameters;
    const double sums =
        8.0 * number(mlp_count(config_, s) * mlp_width(config_, s)) * number(mlp_width(config_, s));
    work.add("communicate",
             collective(parameters * number(size_in_bytes(job_.compute_dtype)) + sums));
    work.add(remove_features(s), share_of(1.0));
  }
  const double bytes = read * number(size_in_bytes(job_.source_dtype)) / ranks();
  return read_beside(work, disk(bytes, stored_bytes(config_, job_.source_dtype), true),
                     convert_in_turns(read, job_.source_dtype, job_.compute_dtype));
}

PhaseTimes JobTime::remove_features(int64_t sublayer) const {
  const MlpCutCounts counts = mlp_cut_counts(config_, job_, sublayer);
  PhaseTimes times;
  times.add("cut", counts.solve / rates_.float64_gemm + counts.bytes / rates_.memory);
  times.add("journal", counts.journal / rates_.disk_write + counts.journal / rates_.hash);
  return times;
}

PhaseTimes JobTime::cut_mlps() const {
  if (!job_.mlp) return {};
  if (!is_pipeline()) return share_features();
  PhaseTimes times = load_stages();
  times.add(streamed(of_ranks([&](const RankShard& shard) { return stream_features(shard); })));
  times.add(side_by_side(of_ranks([&](const RankShard& shard) {
    PhaseTimes removing;
    for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
      removing.add(remove_features(s));
    }
    return removing;
  })));
  return times;
}

/// From the moments to the map.
PhaseTimes JobTime::solve() const {
  const SolveCounts counts = solve_counts(job_);
  PhaseTimes times;
  times.add("sinkhorn", counts.sinkhorn / rates_.sinkhorn);
  times.add("qr", counts.qr / rates_.qr);
  times.add("solve", counts.solve / rates_.float64_gemm);
  return times;
}

/// One thread writes a junction into the journal and one describes it until the next one is solved,
/// which takes `meanwhile`. On a CPU their cores are those of the other work, the disk is not.
/// `disk_write`: while this rank writes.
PhaseTimes JobTime::record(double meanwhile, double disk_write) const {
  const DescribeCounts counts = describe_counts(job_);
  const double describe = counts.eigenvalues / rates_.eigen +
                          counts.condition / rates_.host_memory +
                          counts.energy / rates_.float64_gemm;
  const double map = solve_counts(job_).map;
  const double journal = map / disk_write + map / rates_.hash;
  PhaseTimes times;
  times.add("describe", rates_.cuda ? describe - meanwhile : describe);
  times.add("journal", rates_.cuda
                           ? journal - std::max(meanwhile, describe)
                           : std::max(0.0, map / disk_write - meanwhile) + map / rates_.hash);
  return times;
}

/// Reading ahead and writing go on while a rank multiplies the turns up to its own and folds.
PhaseTimes JobTime::fold_stage(const ModelConfig& output, const RankShard& shard) const {
  double fold = shard.first_sublayer == 0 ? fold_vocabulary() : 0.0;
  if (last(shard) && job_.head_sliced) fold += fold_vocabulary();
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
    fold += fold_seconds(fold_counts(config_, s, job_.widths.largest()));
  }
  PhaseTimes folding;
  folding.add("align", number(aligned(0, shard.end_sublayer)) * align_counts(job_).chain /
                           rates_.float64_gemm);
  folding.add("fold", fold);
  PhaseTimes times = read_beside(
      folding, disk(number(shard.bytes), stored_bytes(config_, job_.source_dtype), true),
      convert(number(shard.parameters), job_.source_dtype, Dtype::kFloat32));
  times.add("write", written_bytes(output, shard) / rates_.disk_write - beside(times.total()));
  return times;
}

int64_t JobTime::aligned(int64_t first, int64_t end) const {
  const ModelConfig model = output();
  int64_t count = 0;
  for (int64_t s = first; s < std::min(end, mapped() - 1); ++s) {
    if (!in_one_group(job_.junction_groups, s) && !model.shortcut(s).dense()) ++count;
  }
  return count;
}

double JobTime::align(int64_t sublayers) const {
  const AlignCounts counts = align_counts(job_);
  return number(sublayers) * (counts.qr / rates_.qr + counts.values / rates_.eigen +
                              counts.products / rates_.float64_gemm);
}

PhaseTimes JobTime::fold_stages() const {
  const ModelConfig model = output();
  PhaseTimes times = side_by_side(of_ranks([&](const RankShard& shard) {
    const int64_t mine = aligned(shard.first_sublayer, shard.end_sublayer);
    const double bytes = number(mine) * align_counts(job_).turn;
    PhaseTimes aligning;
    aligning.add("align", align(mine));
    const double hash = bytes / rates_.hash;
    const double beside_disk = beside(aligning.total()) - (rates_.cuda ? hash : 0.0);
    aligning.add("journal", std::max(0.0, bytes / rates_.disk_write - beside_disk) +
                                (rates_.cuda ? 0.0 : hash));
    return aligning;
  }));
  times.add(
      side_by_side(of_ranks([&](const RankShard& shard) { return fold_stage(model, shard); })));
  return times;
}

PhaseTimes JobTime::keep_statistics() const {
  const double written = number(estimate_traffic(config_, job_, plan_).statistics_bytes);
  const double read = number(read_statistics_bytes(config_, job_));
  PhaseTimes times;
  times.add("journal", written / ranks() / rates_.disk_write + written / ranks() / rates_.hash);
  // Their hashes are compared before, and what was just written is in the cache.
  times.add("read", disk(read / ranks(), read, job_.statistics.saved()));
  if (job_.statistics.used()) times.add("journal", read / ranks() / rates_.hash);
  return times;
}

PhaseTimes JobTime::load_stages() const {
  return side_by_side(of_ranks([&](const RankShard& shard) {
    PhaseTimes loading;
    loading.add("read",
                disk(number(shard.bytes), stored_bytes(config_, job_.source_dtype),
                     job_.evaluation.has_value()) +
                    convert(number(shard.parameters), job_.source_dtype, job_.compute_dtype));
    return loading;
  }));
}

PhaseTimes JobTime::passes_of_pipeline() const {
  PhaseTimes times = load_stages();
  const auto stage_of = [&](const RankShard& shard) {
    PhaseTimes stage;
    for (int64_t s = shard.first_sublayer; s < shard.end_run(summed()); ++s) {
      stage.add("forward", forward_passes() * forward(config_, s, widths_of(config_, s), tokens()));
    }
    add_gradients(stage, shard);
    add_moments(stage, tokens(), number(shard.junctions(summed())));
    const double sending =
        (forward_passes() + backward_passes()) * 4.0 * tokens() * d() / rates_.link;
    stage.add("communicate", sending - stage.total());
    return stage;
  };
  times.add(streamed(of_ranks(stage_of)));
  return times;
}

PhaseTimes JobTime::pipeline() const {
  PhaseTimes times;
  if (!job_.statistics.used()) times.add(passes_of_pipeline());
  times.add(keep_statistics());
  PhaseTimes junction = solve();
  junction.add(record(beside(junction.total()), rates_.disk_write));
  const bool has_bases = job_.statistics.used() && job_.junction_groups.empty();
  if (!has_bases) junction.add("eigen", eigen());
  times.add(side_by_side(of_ranks([&](const RankShard& shard) {
    PhaseTimes solving;
    solving.add(junction, number(mapped(shard)));
    return solving;
  })));
  times.add(fold_stages());
  return times;
}

/// One junction, whose moments all ranks sum and one decomposes and solves. It records the junction
/// while the other ranks solve theirs.
PhaseTimes JobTime::solve_over_ranks() const {
  PhaseTimes times;
  add_moments(times, share_of_tokens(), 1.0);
  PhaseTimes solving = solve();
  solving.add("eigen", eigen());
  times.add(solving, share_of(1.0));
  double moved = 8.0 * d() * d();
  if (job_.method.transport()) moved += 8.0 * d() * d();
  if (job_.method.passes() > 1) moved += 4.0 * d() * d();
  times.add("communicate", collective(moved));
  times.add(record(beside(ranks() * times.total()), rates_.disk_write), 1.0 / ranks());
  return times;
}

PhaseTimes JobTime::layerwise() const {
  PhaseTimes work;
  double read = 0.0;
  for (int64_t junction = 0; junction < mapped(); ++junction) {
    work.add(solve_over_ranks());
    if (junction + 1 == mapped()) break;
    const auto parameters = number(
        sublayer_parameters(config_, junction, config_.hidden_size, config_.hidden_size, false));
    read += parameters;
    work.add("forward",
             forward(config_, junction, widths_of(config_, junction), share_of_tokens()));
    work.add("communicate", collective(parameters * number(size_in_bytes(job_.compute_dtype))));
  }
  const double bytes = read * number(size_in_bytes(job_.source_dtype)) / ranks();
  PhaseTimes times = read_beside(work, disk(bytes, stored_bytes(config_, job_.source_dtype), true),
                                 convert_in_turns(read, job_.source_dtype, job_.compute_dtype));
  times.add(fold_stages());
  return times;
}

/// One rank folds an in_proj while the others wait.
PhaseTimes JobTime::token_parallel() const {
  const int64_t width = job_.widths.largest();
  PhaseTimes work;
  PhaseTimes in_turn;
  double read = 0.0;
  for (int64_t junction = 0; junction < mapped(); ++junction) {
    work.add(solve_over_ranks());
    work.add("communicate", collective(solve_counts(job_).map));
    work.add("forward", 2.0 * share_of_tokens() * d() * k() / rates_.float32_gemm);
    if (junction + 1 == mapped()) break;
    const int64_t s = junction;  // the sublayer that reads it
    in_turn.add("fold", fold_counts(config_, s, width).in_proj / rates_.fold_gemm);
    read +=
        number(sublayer_parameters(config_, s, config_.hidden_size, config_.hidden_size, false));
    const auto sent = number(sublayer_parameters(config_, s, width, config_.hidden_size, false) +
                             width * config_.hidden_size);
    work.add("communicate", collective(sent * number(size_in_bytes(job_.compute_dtype))));
    work.add("forward",
             forward(config_, s, {width, config_.hidden_size, width * config_.hidden_size},
                     share_of_tokens()));
  }
  work.add(in_turn, share_of(1.0));
  const double bytes = read * number(size_in_bytes(job_.source_dtype)) / ranks();
  PhaseTimes times = read_beside(work, disk(bytes, stored_bytes(config_, job_.source_dtype), true),
                                 convert_in_turns(read, job_.source_dtype, Dtype::kFloat32));
  times.add(fold_stages());
  return times;
}

PhaseTimes JobTime::hash(double calibrating, double evaluating) const {
  const double read = stored_bytes(config_, job_.source_dtype) / ranks() / rates_.hash;
  const double written = stored_bytes(output(), job_.output_dtype) / ranks() / rates_.hash;
  PhaseTimes times;
  if (rates_.cuda) {
    times.add("hash", std::max(read - calibrating, 0.0) + std::max(written - evaluating, 0.0));
  } else {
    times.add("hash", read + written);
  }
  return times;
}

void count_steps(const PhaseTimes& calibration, TimeEstimate::Steps& steps) {
  constexpr std::array kOfSublayers = {"fold", "write"};
  constexpr std::array kOfJunctions = {"eigen",    "sinkhorn", "qr",   "solve",
                                       "describe", "journal",  "align"};
  for (const Phase& phase : calibration.phases()) {
    if (std::ranges::find(kOfSublayers, phase.name) != kOfSublayers.end()) {
      steps.sublayers += phase.seconds;
    } else if (std::ranges::find(kOfJunctions, phase.name) != kOfJunctions.end()) {
      steps.junctions += phase.seconds;
    } else {
      steps.tokens += phase.seconds;
    }
  }
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
  TimeEstimate::Steps steps;
  PhaseTimes times = time.check_weights();
  steps.check = times.total();
  if (job.evaluation) {
    steps.evaluate_dense = time.evaluate(config, job.source_dtype, /*first=*/true).total();
    if (job.kl) steps.evaluate_dense += time.keep_states().total();
    times.add("evaluate_dense", steps.evaluate_dense);
  }
  const ModelConfig cut_config = with_cut_mlps(config, job.mlp);
  PhaseTimes calibration = time.cut_mlps();
  calibration.add(JobTime(cut_config, job, plan, rates).calibrate());
  count_steps(calibration, steps);
  times.add(calibration);
  if (job.evaluation) {
    const ModelConfig output = output_model_config(config, job, job.widths);
    steps.evaluate_compressed = time.evaluate(output, job.output_dtype, /*first=*/false).total();
    if (job.kl) steps.evaluate_compressed += time.compare(output).total();
    times.add("evaluate_compressed", steps.evaluate_compressed);
  }
  const PhaseTimes hashing = time.hash(calibration.total(), steps.evaluate_compressed);
  steps.hash = hashing.total();
  times.add(hashing);
  return {times.phases(), steps};
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
