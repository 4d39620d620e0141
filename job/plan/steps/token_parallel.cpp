#include <algorithm>

#include "job/plan/steps/maps.h"

namespace dotresize {
namespace {

int64_t token_parallel_memory(const RankSizes& r) {
  const JunctionSizes s(r);
  // Largest sublayer that the rank reads before a junction with a map: as it is read, and with its
  // in_proj folded. Ranks take turns.
  int64_t read = 0;
  int64_t half_folded = 0;
  for (int64_t turn = r.shard.rank; turn < r.job.widths.mapped_count - 1;
       turn += r.job.resources.ranks) {
    read = std::max(read, r.dense_parameters(turn));
    half_folded = std::max(half_folded, r.half_folded(turn));
  }
  // GPU ranks upload the sublayer of their next turn all the while.
  const int64_t ahead = r.on_gpu ? r.fold_bytes * read : 0;
  const int64_t map = r.fold_bytes * r.d * r.k;
  const int64_t folding = r.fold_bytes * (2 * r.d * r.k + read + half_folded);
  // A rank sends what it has folded, unless it computes in another dtype.
  const int64_t sent = r.folded_sublayer * 2 / 3 + r.dense_sublayer / 3;
  const int64_t converting = r.compute_bytes == r.fold_bytes ? 0 : r.fold_bytes * sent;
  const int64_t forward =
      r.compute_bytes * sent + std::max(converting, r.microbatch_stream + r.insides());
  const int64_t sublayer = s.described_beside() + map + std::max(folding, forward);
  return r.share_stream + ahead + std::max(s.one_at_a_time(), sublayer);
}

/// One rank folds an in_proj while the others wait.
PhaseTimes token_parallel_time(const JobTime& t) {
  const int64_t width = t.job.widths.largest();
  const int64_t d = t.config.hidden_size;
  PhaseTimes work;
  PhaseTimes in_turn;
  TensorsSize read;
  for (int64_t junction = 0; junction < t.mapped; ++junction) {
    work.add(shared_junction_time(t));
    work.add("communicate", t.collective(solve_counts(t.job).map));
    work.add("forward", 2.0 * t.share_of_tokens * t.d * t.k / t.rates.float32_gemm);
    if (junction + 1 == t.mapped) break;
    const int64_t s = junction;  // the sublayer that reads the junction
    in_turn.add("fold", fold_counts(t.config, s, width).in_proj / t.rates.fold_gemm);
    read = read + t.dense_sublayer_size(s);
    const auto sent = number(sublayer_parameters(t.config, s, width, d, false) + width * d);
    work.add("communicate",
             t.collective(sent * number(size_in_bytes(t.job.resources.compute_dtype))));
    work.add("forward", t.forward(t.config, s, {width, d, width * d}, t.share_of_tokens));
  }
  work.add(t.in_turn(in_turn));
  return t.read_in_turns(work, read, Dtype::kFloat32, t.config);
}

}  // namespace

constinit const Step kTokenParallelStep = {
    .phase = kCalibrate,
    .after_cut = true,
    .runs = [](const ResolvedJob& job) { return sums_in(job, "token_parallel"); },
    .memory = token_parallel_memory,
    .traffic = add_sharers_traffic,
    .time = token_parallel_time,
    .tokens = sharers_tokens};

}  // namespace dotresize
