#pragma once

#include "dotresize/v1/hardware.pb.h"
#include "job/plan/device.h"

namespace dotresize {

/// Rates of the machine in examples/hardware/ that is most like the device; for a GPU, one of its
/// generation. They tell the share of a job that each of its steps takes, not its seconds.
v1::Hardware reference_hardware(const DeviceFacts& facts);

}  // namespace dotresize
