#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/calibration/storage/journal.h"

namespace dotresize {

/// Final states of a model over evaluation windows, in a journal. Together with the head they are
/// all that a comparison of another model's predictions needs. Each rank writes the states of its
/// own microbatches, and reads those and all that were in the journal at the start.
class KeptStates {
 public:
  /// `name`: prefix of the entries' names. Throws InputError if an entry is malformed.
  KeptStates(Journal& journal, std::string name);

  /// True if this object has the states of all microbatches: found at the start, or put by this
  /// rank.
  bool complete(int64_t microbatches) const;
  /// Stores states; see CheckpointEvaluation::keep.
  void put(int64_t first, const std::vector<at::Tensor>& states);
  /// Returns a view of the mapped file; see EvaluatedReference::states.
  at::Tensor get(int64_t microbatch) const;

 private:
  void find(const std::string& entry);

  Journal& journal_;
  std::string name_;
  std::map<int64_t, at::Tensor> views_;  ///< mapped states, by microbatch
};

}  // namespace dotresize
