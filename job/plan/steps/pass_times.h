#pragma once

#include <cstdint>

#include "job/plan/estimate/job_time.h"

namespace dotresize {

// Seconds of passes over the tokens, from the counts of passes.h.

/// Loads the ranks' stages, for passes over the tokens.
PhaseTimes load_stages(const JobTime& t);
/// Number of times that a sublayer runs forward on the way back.
int64_t runs_again(const JobTime& t, const RankShard& shard, int64_t sublayer);
/// Adds the way back of all tokens, `passes` times, through the rank's sublayers and the head.
void add_backward(const JobTime& t, const RankShard& shard, double passes, PhaseTimes& times);

}  // namespace dotresize
