#pragma once

#include <optional>

#include "job/report.h"
#include "worker/device/choose_device.h"
#include "worker/phase_clock.h"

namespace dotresize {

/// What this rank's l1 costs have reached; nothing where it has computed none. On the CPU the limit
/// is measured, which takes some milliseconds: ranks that share a host do it at the same time.
std::optional<CostReport> cost_report(const PhaseClock& clock, const ChosenDevice& device);

}  // namespace dotresize
