#pragma once

namespace dotresize {

/// Activation checkpoints of the way back (`metric: fisher`): what a stage keeps of a microbatch
/// between its way forward and its way back. The less it is, the more is computed again.
enum class Checkpoints {
  kNone,       ///< all that autograd keeps of each sublayer: nothing is computed again
  kSublayers,  ///< the input of each sublayer, which runs again on the way back
  kStage       ///< the input of the stage, which runs again as a whole before its sublayers do
};

}  // namespace dotresize
