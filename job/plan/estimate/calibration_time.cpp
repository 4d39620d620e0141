#include "job/plan/block_sizes.h"
#include "job/plan/estimate/job_time.h"
#include "job/plan/estimate/traffic.h"

namespace dotresize {

void JobTime::add_moments(PhaseTimes& times, double tokens, double junctions) const {
  const MomentCounts counts = moment_counts(job_);
  const double blocks = tokens / std::min<double>(microbatch_tokens_, kGramBlockTokens);
  const double gram =
      tokens * counts.gram / (rates_.cuda ? rates_.float32_gemm : rates_.float64_gemm) +
      (job_.gradients() ? 2.0 : 1.0) * blocks * gram_block_bytes(d_, packs_) / rates_.memory;
  times.add("gram", junctions * gram);
  times.add("rotate", junctions * tokens * counts.rotate / rates_.float32_gemm);
  times.add("cost", junctions * tokens * counts.pairs / rates_.l1_cost);
}

/// Number of times that a sublayer runs forward on the way back.
int64_t JobTime::runs_again(const RankShard& shard, int64_t sublayer) const {
  switch (shard.checkpoints) {
    case Checkpoints::kNone:
      return 0;
    case Checkpoints::kSublayers:
      return 1;
    case Checkpoints::kStage:
      return sublayer + 1 < shard.end_sublayer || last(shard) ? 2 : 1;
  }
  return 1;
}

void JobTime::add_backward(PhaseTimes& times, const RankShard& shard, double passes) const {
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
    const double once = forward(config_, s, widths_of(config_, s), tokens_);
    times.add("backward", passes * number(kBackwardPasses + runs_again(shard, s)) * once);
  }
  if (!last(shard)) return;
  // The head computes the logits twice, and a product with their gradients.
  times.add("backward", 3.0 * passes *
                            forward(head_counts(config_, config_.hidden_size, tokens_,
                                                job_.resources.compute_dtype)));
}

/// Solves one junction, from the moments to the map.
PhaseTimes JobTime::solve() const {
  const SolveCounts counts = solve_counts(job_);
  PhaseTimes times;
  times.add("sinkhorn", counts.sinkhorn / rates_.sinkhorn);
  times.add("qr", counts.qr / rates_.qr);
  times.add("solve", counts.solve / rates_.float64_gemm);
  return times;
}

/// Records one junction. One thread writes it into the journal and another describes it until the
/// next junction is solved, which takes `meanwhile`. On a CPU their cores are those of the other
/// work, but the disk is not. `disk_write`: rate while this rank writes.
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

/// Folds a stage. Reading ahead and writing go on while the rank multiplies the rotations up to its
/// own and folds.
PhaseTimes JobTime::fold_stage(const ModelConfig& output, const RankShard& shard) const {
  PhaseTimes folding;  // without maps, the weights are only copied
  if (mapped_ > 0) {
    const double vocabulary = 2.0 * number(config_.vocab_size) * d_ * k_ / rates_.fold_gemm;
    double fold = shard.first_sublayer == 0 && !output.form.embedding_projection ? vocabulary : 0.0;
    if (last(shard) && job_.maps.head_sliced && !output.tie_word_embeddings) fold += vocabulary;
    for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
      const FoldCounts counts = fold_counts(config_, s, job_.widths.largest());
      fold += (counts.in_proj + counts.out_proj) / rates_.fold_gemm;
    }
    folding.add("align", number(aligned(0, shard.end_sublayer)) * align_counts(job_).chain /
                             rates_.float64_gemm);
    folding.add("fold", fold);
  }
  PhaseTimes times = read_beside(folding, disk(number(shard.size.bytes), config_, true),
                                 convert(shard.size, Dtype::kFloat32));
  const auto written = number(shard_size(output, shard.first_sublayer, shard.end_sublayer).bytes);
  times.add("write", written / rates_.disk_write - beside(times.total()));
  return times;
}

int64_t JobTime::aligned(int64_t first, int64_t end) const {
  if (job_.maps.shared) return 0;
  const ModelConfig model = output_model_config(config_, job_, job_.widths);
  int64_t count = 0;
  for (int64_t s = first; s < std::min(end, mapped_ - 1); ++s) {
    if (!model.shortcut(s).dense()) ++count;
  }
  return count;
}

double JobTime::align(int64_t sublayers) const {
  const AlignCounts counts = align_counts(job_);
  return number(sublayers) * (counts.qr / rates_.qr + counts.values / rates_.svd +
                              counts.products / rates_.float64_gemm);
}

PhaseTimes JobTime::fold_stages() const {
  const ModelConfig model = output_model_config(config_, job_, job_.widths);
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

PhaseTimes JobTime::load_stages() const {
  return side_by_side(of_ranks([&](const RankShard& shard) {
    PhaseTimes loading;
    loading.add("read", disk(number(shard.size.bytes), config_, job_.evaluation.has_value()) +
                            convert(shard.size, job_.resources.compute_dtype));
    return loading;
  }));
}

PhaseTimes JobTime::passes_of_pipeline() const {
  PhaseTimes times;
  times.add(load_stages(), number(plan_.junction_groups));
  const auto stage_of = [&](const RankShard& shard) {
    PhaseTimes stage;
    for (int64_t s = shard.first_sublayer; s < shard.end_run(summed_); ++s) {
      stage.add("forward", forward_passes_ * forward(config_, s, widths_of(config_, s), tokens_));
    }
    if (job_.gradients()) {
      // Gradients of all junctions go through the sublayers behind the last one too.
      for (int64_t s = shard.end_run(summed_); s < shard.end_sublayer; ++s) {
        stage.add("forward", forward_passes_ * forward(config_, s, widths_of(config_, s), tokens_));
      }
      add_backward(stage, shard, backward_passes_);
    }
    add_moments(stage, tokens_, number(shard.junctions(summed_)));
    const double sending = (forward_passes_ + backward_passes_) * 4.0 * tokens_ * d_ / rates_.link;
    stage.add("communicate", sending - stage.total());
    return stage;
  };
  times.add(streamed(of_ranks(stage_of)));
  return times;
}

PhaseTimes JobTime::pipeline() const {
  PhaseTimes times;
  if (!takes_no_tokens(job_)) times.add(passes_of_pipeline());
  const double written = number(saved_statistics_bytes(config_, job_));
  const double read = number(read_statistics_bytes(config_, job_));
  PhaseTimes statistics;
  statistics.add("journal", put(written / ranks_));
  // Saved statistics have just been written and are in the file cache. Used ones are hashed first.
  statistics.add("read", disk(read / ranks_, read, job_.statistics.saved()));
  if (job_.statistics.used()) statistics.add("journal", read / ranks_ / rates_.hash);
  times.add(statistics);
  PhaseTimes junction = solve();
  junction.add(record(beside(junction.total()), rates_.disk_write));
  const bool has_bases = takes_no_tokens(job_) && !job_.maps.shared;
  if (!has_bases) junction.add("eigen", eigen());
  times.add(side_by_side(of_ranks([&](const RankShard& shard) {
    PhaseTimes solving;
    solving.add(junction, number(shard.junctions(mapped_)));
    return solving;
  })));
  times.add(fold_stages());
  return times;
}

/// Solves one junction. All ranks sum its moments; one rank decomposes and solves it, side by side
/// with the owners of other junctions. It records the junction while the other ranks solve theirs.
PhaseTimes JobTime::solve_over_ranks() const {
  const double together = number(plan_.ranks.front().solved_together);
  PhaseTimes times;
  add_moments(times, share_of_tokens_, 1.0);
  PhaseTimes solving = solve();
  solving.add("eigen", eigen());
  times.add(solving, share_of(together) / together);
  double moved = 8.0 * d_ * d_;
  if (job_.method.transport()) moved += 8.0 * d_ * d_;
  if (job_.method.passes() > 1) moved += 4.0 * d_ * d_;
  times.add("communicate", collective(moved));
  times.add(record(beside(ranks_ * times.total()), rates_.disk_write), 1.0 / ranks_);
  return times;
}

PhaseTimes JobTime::layerwise() const {
  PhaseTimes work;
  TensorsSize read;
  for (int64_t junction = 0; junction < mapped_; ++junction) {
    work.add(solve_over_ranks());
    if (junction + 1 == mapped_) break;
    const TensorsSize sublayer = dense_sublayer_size(junction);
    read = read + sublayer;
    work.add("forward", forward(config_, junction, widths_of(config_, junction), share_of_tokens_));
    work.add("communicate",
             collective(number(sublayer.parameters * size_in_bytes(job_.resources.compute_dtype))));
  }
  PhaseTimes times = read_beside(work, disk(number(read.bytes) / ranks_, config_, true),
                                 convert_in_turns(read, job_.resources.compute_dtype));
  times.add(fold_stages());
  return times;
}

/// Token-parallel schedule. One rank folds an in_proj while the others wait.
PhaseTimes JobTime::token_parallel() const {
  const int64_t width = job_.widths.largest();
  PhaseTimes work;
  PhaseTimes in_turn;
  TensorsSize read;
  for (int64_t junction = 0; junction < mapped_; ++junction) {
    work.add(solve_over_ranks());
    work.add("communicate", collective(solve_counts(job_).map));
    work.add("forward", 2.0 * share_of_tokens_ * d_ * k_ / rates_.float32_gemm);
    if (junction + 1 == mapped_) break;
    const int64_t s = junction;  // the sublayer that reads the junction
    in_turn.add("fold", fold_counts(config_, s, width).in_proj / rates_.fold_gemm);
    read = read + dense_sublayer_size(s);
    const auto sent = number(sublayer_parameters(config_, s, width, config_.hidden_size, false) +
                             width * config_.hidden_size);
    work.add("communicate", collective(sent * number(size_in_bytes(job_.resources.compute_dtype))));
    work.add("forward",
             forward(config_, s, {width, config_.hidden_size, width * config_.hidden_size},
                     share_of_tokens_));
  }
  work.add(in_turn, share_of(1.0));
  PhaseTimes times = read_beside(work, disk(number(read.bytes) / ranks_, config_, true),
                                 convert_in_turns(read, Dtype::kFloat32));
  times.add(fold_stages());
  return times;
}

}  // namespace dotresize
