#pragma once

#include <cstdint>

#include "job/model/model_config.h"

namespace dotresize {

struct ResolvedJob;

/// Default number and length of calibration windows, if neither the job nor its token file gives
/// them.
inline constexpr int64_t kDefaultSamples = 128;
inline constexpr int64_t kDefaultSeqlen = 2048;
/// Maximum number of evaluation windows, if they are taken from what the calibration leaves of its
/// own text.
inline constexpr int64_t kDefaultUnusedSamples = 16;

/// Samples per microbatch: about 512 tokens, at least one sample. That is enough for matrix
/// products to run at full speed, and leaves many microbatches to distribute.
int64_t microbatch_samples(int64_t seqlen);

/// Number of the `windows` in which an allocation measures the errors of single tokens: about
/// 32,768 tokens, at least one window.
int64_t sampled_loss_increase_windows(int64_t windows, int64_t seqlen);

/// Number and length of the calibration windows, as far as they are known before the tokens are
/// read: the defaults if the job does not say. The default length is at most the model's positions.
int64_t expected_samples(const ResolvedJob& job);
int64_t expected_seqlen(const ResolvedJob& job, const ModelConfig& config);

}  // namespace dotresize
