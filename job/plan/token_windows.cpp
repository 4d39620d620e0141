#include "job/plan/token_windows.h"

#include <algorithm>

#include "job/plan/resolved_job.h"

namespace dotresize {

int64_t microbatch_samples(int64_t seqlen) {
  constexpr int64_t kMicrobatchTokens = 512;
  return std::max<int64_t>(1, kMicrobatchTokens / seqlen);
}

int64_t sampled_loss_increase_windows(int64_t windows, int64_t seqlen) {
  constexpr int64_t kSampledTokens = 32768;
  return std::min(windows, std::max<int64_t>(1, kSampledTokens / seqlen));
}

int64_t expected_samples(const ResolvedJob& job) {
  return job.calibration.samples.value_or(kDefaultSamples);
}

int64_t expected_seqlen(const ResolvedJob& job, const ModelConfig& config) {
  return job.calibration.seqlen.value_or(std::min(kDefaultSeqlen, config.max_position_embeddings));
}

}  // namespace dotresize
