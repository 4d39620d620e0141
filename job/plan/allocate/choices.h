#pragma once

#include <cstdint>
#include <vector>

#include "job/model/units/unit.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// One size of a unit.
struct Choice {
  const Unit* unit = nullptr;
  int64_t size = 0;

  bool operator==(const Choice&) const = default;
};

/// Returns what an allocation can choose for the sublayer, in the order of the bytes that are left.
/// The first choice leaves it whole. The last one removes it, if it may go.
std::vector<Choice> choices(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer);

/// Returns the bytes of the sublayer with each choice, in an output of these dtypes.
std::vector<int64_t> bytes_of_choices(const ModelConfig& config, const StoredDtypes& dtypes,
                                      int64_t sublayer, const std::vector<Choice>& choices);

}  // namespace dotresize
