#pragma once

#include <optional>

#include "base/phase_clock.h"
#include "job/report/report.h"
#include "worker/cuda/choose_device.h"

namespace dotresize {

/// What this rank's l1 costs have reached, with the limit of its GPU if it has one; nothing if it
/// has computed none.
std::optional<CostReport> cost_report(const PhaseClock& clock, const ChosenDevice& device);

}  // namespace dotresize
