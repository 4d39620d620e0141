#pragma once

#include "tests/cuda/fake_device/clock.h"

namespace dotresize::fake_device {

/// Number of GPUs that a process sees.
constexpr c10::DeviceIndex kDevices = 2;

// Device and stream of the calling thread.
c10::DeviceIndex current_device();
StreamName current_stream(c10::DeviceIndex device);

}  // namespace dotresize::fake_device
