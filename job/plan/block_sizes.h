#pragma once

#include <cstdint>

namespace dotresize {

// Bytes of a number.
inline constexpr int64_t kFloat = 4;
inline constexpr int64_t kDouble = 8;

// How much of a large matrix is worked on at a time: what the worker takes, and the estimates
// count.

/// Rows of the embedding or the head: in folding, and in evaluation (64 MiB of float32 logits for
/// 2048 tokens).
inline constexpr int64_t kFoldedVocabularyRows = 4096;
inline constexpr int64_t kEvaluatedVocabularyRows = 8192;
/// Likewise if two models' predictions are compared: there are twice as many matrices.
inline constexpr int64_t kComparedVocabularyRows = 4096;
/// Tokens whose logits are compared in float64 at a time.
inline constexpr int64_t kComparedTokens = 64;
/// Rows of the head for the gradient of the loss, which takes more matrices of this width.
inline constexpr int64_t kGradientVocabularyRows = 2048;
/// Tokens of a Gram matrix's block in float64 on the CPU (worker/maps/moments.cpp, which knows no
/// plans, says it again).
inline constexpr int64_t kGramBlockTokens = 1024;

}  // namespace dotresize
