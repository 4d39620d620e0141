#include "job/model/model_size.h"
#include "job/plan/estimate/job_time.h"
#include "job/plan/steps/step.h"

namespace dotresize {
namespace {

/// Checks the vocabulary of the ends, and all sublayers if the first step does not load them.
PhaseTimes check_time(const JobTime& t) {
  return t.side_by_side([&](const RankShard& shard) {
    int64_t bytes = 0;
    if (shard.first_sublayer == 0) bytes += embedding_matrix_size(t.config).bytes;
    if (t.last(shard)) bytes += head_matrix_size(t.config).bytes;
    if (checks_sublayers_first(t.job)) bytes = shard.size.bytes;
    PhaseTimes times;
    times.add("read", t.disk(number(bytes), t.config, false) + number(bytes) / t.rates.host_memory);
    return times;
  });
}

}  // namespace

bool checks_sublayers_first(const ResolvedJob& job) {
  const bool loads_late = job.statistics.given() && !job.target.allocation;
  return !job.evaluation && (!job.schedule.pipelined || loads_late);
}

constinit const Step kCheckStep = {.phase = kPrepare,
                                   .traffic =
                                       [](const JobParts& parts, Traffic& traffic) {
                                         if (checks_sublayers_first(parts.job))
                                           traffic.read_bytes += stored_bytes(parts.config);
                                       },
                                   .time = check_time};

}  // namespace dotresize
