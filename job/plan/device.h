#pragma once

#include <string>

namespace dotresize {

/// What ranks compute on. `auto` is no kind: std::optional without a value.
enum class DeviceKind { kCpu, kCuda };

/// "cpu", "cuda".
inline std::string to_string(DeviceKind device) {
  return device == DeviceKind::kCuda ? "cuda" : "cpu";
}

/// What the ranks of a job that was launched have found.
struct DeviceFacts {
  DeviceKind device = DeviceKind::kCpu;  ///< of every rank
  int least_capability = 0;              ///< of all ranks' GPUs: 90 for sm_90
};

}  // namespace dotresize
