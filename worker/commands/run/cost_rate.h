#pragma once

#include <optional>

#include "base/phase_clock.h"
#include "job/report/report.h"
#include "worker/cuda/choose_device.h"

namespace dotresize {

/// What this rank's l1 costs have reached; nothing where it has computed none. On the CPU the limit
/// is measured, which takes some milliseconds: ranks that share a host do it at the same time.
std::optional<CostReport> cost_report(const PhaseClock& clock, const ChosenDevice& device);

}  // namespace dotresize
