#pragma once

#include <algorithm>
#include <cstdint>

namespace dotresize {

// Bytes of a number.
inline constexpr int64_t kFloat = 4;
inline constexpr int64_t kDouble = 8;

// Block sizes for large matrices. The worker uses them, and the estimates count with them.

/// Rows of the embedding or the head that are folded at a time.
inline constexpr int64_t kFoldedVocabularyRows = 4096;
/// Rows of the head that are evaluated at a time: 64 MiB of float32 logits for 2048 tokens.
inline constexpr int64_t kEvaluatedVocabularyRows = 8192;
/// Rows of the heads at a time when the predictions of two models are compared. There are twice as
/// many matrices.
inline constexpr int64_t kComparedVocabularyRows = 4096;
/// Tokens at a time whose logits are compared in float64.
inline constexpr int64_t kComparedTokens = 64;
/// Rows of the head at a time for the gradient of the loss, which takes more matrices of this
/// width.
inline constexpr int64_t kGradientVocabularyRows = 2048;
/// Tokens per block of a Gram matrix in float64 on the CPU. worker/maps/moments.cpp does not depend
/// on plans and has a copy.
inline constexpr int64_t kGramBlockTokens = 1024;

/// Tokens of a DeltaNet that are computed at once.
inline constexpr int64_t kDeltaNetTokens = 64;

// Windows of tokens.

/// Default number and length of calibration windows, if neither the job nor its token file gives
/// them.
inline constexpr int64_t kDefaultSamples = 128;
inline constexpr int64_t kDefaultSeqlen = 2048;
/// Maximum number of evaluation windows, if they are taken from what the calibration leaves of its
/// own text.
inline constexpr int64_t kDefaultUnusedSamples = 16;

/// Samples per microbatch: about 512 tokens, at least one sample. That is enough for matrix
/// products to run at full speed, and leaves many microbatches to distribute.
inline int64_t microbatch_samples(int64_t seqlen) { return std::max<int64_t>(1, 512 / seqlen); }

}  // namespace dotresize
