#pragma once

#include "dotresize/v1/hardware.pb.h"
#include "job/plan/device.h"

namespace dotresize {

/// The file of examples/hardware/ whose machine is most like the device: of GPUs the one of their
/// generation. Good for what share of a job each of its steps takes, not for seconds.
v1::Hardware reference_hardware(const DeviceFacts& facts);

}  // namespace dotresize
