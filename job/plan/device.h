#pragma once

#include <string>

namespace dotresize {

/// Kind of device that ranks compute on. `auto` is a std::optional without a value.
enum class DeviceKind { kCpu, kCuda };

/// "cpu", "cuda".
inline std::string to_string(DeviceKind device) {
  return device == DeviceKind::kCuda ? "cuda" : "cpu";
}

/// Devices that the ranks of a launched job have found.
struct DeviceFacts {
  DeviceKind device = DeviceKind::kCpu;  ///< device kind of every rank
  int least_capability = 0;  ///< lowest compute capability of the ranks' GPUs: 90 for sm_90
};

}  // namespace dotresize
