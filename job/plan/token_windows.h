#pragma once

#include <cstdint>

#include "job/model/model_config.h"

namespace dotresize {

struct ResolvedJob;

/// Calibration windows and their length, if neither the job nor its token file says.
inline constexpr int64_t kDefaultSamples = 128;
inline constexpr int64_t kDefaultSeqlen = 2048;
/// Evaluation windows at most, if they are those that the calibration leaves of its own text.
inline constexpr int64_t kDefaultUnusedSamples = 16;

/// Samples per microbatch: about 512 tokens, at least one sample. Enough for the matrix products to
/// run at full speed, and many microbatches to deal out.
int64_t microbatch_samples(int64_t seqlen);

/// Number of windows, of `windows`, in which an allocation sees the errors of single tokens: about
/// 32,768 tokens, at least one window.
int64_t sampled_rise_windows(int64_t windows, int64_t seqlen);

/// Number and length of the calibration windows as far as they are known before the tokens are
/// read: the defaults if the job does not say, and no more than the model's positions.
int64_t expected_samples(const ResolvedJob& job);
int64_t expected_seqlen(const ResolvedJob& job, const ModelConfig& config);

}  // namespace dotresize
