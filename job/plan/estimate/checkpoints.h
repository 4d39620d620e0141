#pragma once

namespace dotresize {

/// Activation checkpoints for the way back (`metric: fisher`, `heal`): what a stage keeps of a
/// microbatch between its way forward and its way back. A stage that keeps less computes more
/// again.
enum class Checkpoints {
  kNone,       ///< everything that autograd keeps of each sublayer; nothing is computed again
  kSublayers,  ///< the input of each sublayer, which runs again on the way back
  kStage       ///< the input of the stage, which runs again as a whole before its sublayers do
};

}  // namespace dotresize
