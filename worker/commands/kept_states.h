#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/calibration/journal.h"

namespace dotresize {

/// The final states of a model over evaluation windows, in a journal: with the head all that
/// another model's predictions are compared with. Each rank writes those of its own microbatches
/// and reads those of any rank that were there at first.
class KeptStates {
 public:
  /// `name`: how the names of their entries begin. Throws InputError if there are malformed ones.
  KeptStates(Journal& journal, std::string name);

  /// Those of all microbatches were there at first, or are this rank's.
  bool complete(int64_t microbatches) const;
  /// As CheckpointEvaluation::keep.
  void put(int64_t first, const std::vector<at::Tensor>& states);
  /// As EvaluatedReference::states: a view of the mapped file.
  at::Tensor get(int64_t microbatch) const;

 private:
  void find(const std::string& entry);

  Journal& journal_;
  std::string name_;
  std::map<int64_t, at::Tensor> views_;  ///< by microbatch
};

}  // namespace dotresize
