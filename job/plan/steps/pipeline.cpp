#include <algorithm>

#include "job/plan/estimate/job_time.h"
#include "job/plan/steps/maps.h"

namespace dotresize {
namespace {

/// Passes over the tokens with the sums of a group of junctions, and solving the group.
int64_t pipeline_memory(const RankSizes& r) {
  const JunctionSizes s(r);
  const int64_t n = s.in_group;
  const int64_t weights = r.stage_weights(
      r.gradients ? r.shard.end_sublayer : r.shard.end_run(summed_junctions(r.config, r.job)));
  const int64_t first = n * s.first_sums + r.microbatch() + r.backward();
  // Sums of a shared map, and the sums that are added to them.
  const int64_t shared = r.job.maps.shared ? 2 * s.whole_first_sums + r.square : 0;
  // The metric of the loss decomposes one more matrix. Packed sums are unpacked.
  const int64_t whole = (r.packed ? s.whole_first_sums : 0) + (r.oblique ? r.square : 0);
  const int64_t last = std::max(s.solving(), s.describing());
  const int64_t more = n > 1 ? std::max(s.described_beside() + s.solving(), s.describing()) : 0;
  if (s.second_pass || takes_no_tokens(r.job) || shared > 0) {
    // All junctions of a group are decomposed, and wait.
    const int64_t decomposing = std::max(n * (r.square + s.metric), shared) + s.eigen + whole;
    const int64_t second = s.second_pass ? n * s.second_sums + r.microbatch() : 0;
    const int64_t solving =
        std::max((n - 1) * s.waiting_to_solve + more, s.waiting_to_solve + last) + shared;
    if (takes_no_tokens(r.job)) return std::max(decomposing, solving);
    return std::max(weights + std::max({first, decomposing, second}),
                    solving + (shared > 0 ? weights : 0));
  }
  // Each junction is decomposed when its turn comes, while one before is described.
  const int64_t beside = n > 1 ? s.described_beside() : 0;
  return std::max({weights + first, n * s.first_sums + s.eigen + whole + beside,
                   (n - 1) * s.first_sums + s.waiting_to_solve + more, s.waiting_to_solve + last});
}

/// Numbers of passes over all tokens, forward and back.
int64_t forward_passes(const JobParts& parts) {
  return parts.job.method.passes() * parts.plan.junction_groups;
}
int64_t backward_passes(const JobParts& parts) {
  return parts.job.gradients() ? parts.plan.junction_groups : 0;
}

PhaseTimes stage_time(const JobTime& t, const RankShard& shard) {
  // Gradients of all junctions go through the sublayers behind the last one too.
  const int64_t end = t.job.gradients() ? shard.end_sublayer : shard.end_run(t.summed);
  const double forward = number(forward_passes(t));
  const double back = number(backward_passes(t));
  PhaseTimes stage;
  for (int64_t s = shard.first_sublayer; s < end; ++s) {
    stage.add("forward", forward * t.forward(t.config, s, t.tokens));
  }
  if (t.job.gradients()) add_backward(t, shard, back, stage);
  add_moments(t, t.tokens, number(shard.junctions(t.summed)), stage);
  const double sending = (forward + back) * 4.0 * t.tokens * t.d / t.rates.link;
  stage.add("communicate", sending - stage.total());
  return stage;
}

PhaseTimes pipeline_time(const JobTime& t) {
  PhaseTimes times;
  if (!takes_no_tokens(t.job)) {
    times.add(load_stages(t), number(t.plan.junction_groups));
    times.add(t.streamed([&](const RankShard& shard) { return stage_time(t, shard); }));
  }
  const double written = number(saved_statistics_bytes(t.config, t.job));
  const double read = number(read_statistics_bytes(t.config, t.job));
  PhaseTimes statistics;
  statistics.add("journal", t.put(written / t.ranks));
  // Saved statistics have just been written and are in the file cache. Used ones are hashed first.
  statistics.add("read", t.disk(read / t.ranks, read, t.job.statistics.saved()));
  if (t.job.statistics.used()) statistics.add("journal", read / t.ranks / t.rates.hash);
  times.add(statistics);
  PhaseTimes junction = solve_time(t);
  junction.add(record_time(t, t.beside(junction.total())));
  const bool has_bases = takes_no_tokens(t.job) && !t.job.maps.shared;
  if (!has_bases) junction.add("eigen", eigen_seconds(t));
  times.add(t.side_by_side([&](const RankShard& shard) {
    PhaseTimes solving;
    solving.add(junction, number(shard.junctions(t.mapped)));
    return solving;
  }));
  return times;
}

void add_pipeline_traffic(const JobParts& parts, Traffic& traffic) {
  const auto& [config, job, plan] = parts;
  traffic.read_bytes += read_statistics_bytes(config, job);
  traffic.statistics_bytes += saved_statistics_bytes(config, job);
  if (takes_no_tokens(job)) return;
  traffic.sent_bytes += (job.resources.ranks - 1) * expected_tokens(job, config) *
                        config.hidden_size * kFloat *
                        (forward_passes(parts) + backward_passes(parts));
}

/// All tokens once per pass, and once more on their way back.
int64_t pipeline_tokens(const JobParts& parts, const FoundTokens& found) {
  if (takes_no_tokens(parts.job)) return 0;
  return found.calibration * (forward_passes(parts) + backward_passes(parts));
}

}  // namespace

constinit const Step kPipelineStep = {
    .phase = kCalibrate,
    .after_cut = true,
    .runs = [](const ResolvedJob& job) { return sums_in(job, "pipeline"); },
    .memory = pipeline_memory,
    .traffic = add_pipeline_traffic,
    .time = pipeline_time,
    .tokens = pipeline_tokens};

}  // namespace dotresize
