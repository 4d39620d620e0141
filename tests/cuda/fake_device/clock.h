#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <string>

namespace dotresize::fake_device {

struct StreamName {
  c10::DeviceIndex device = 0;
  c10::StreamId id = 0;  ///< 0: the default stream
  auto operator<=>(const StreamName&) const = default;
};

inline StreamName name_of(const c10::Stream& stream) {
  return {stream.device_index(), stream.id()};
}

/// Text of the form "stream 3 of cuda:0".
inline std::string text_of(const StreamName& stream) {
  const std::string of_device = " of cuda:" + std::to_string(stream.device);
  if (stream.id == 0) return "the default stream" + of_device;
  return "stream " + std::to_string(stream.id) + of_device;
}

/// Vector clock: the number of earlier operations of each stream.
class Clock {
 public:
  uint64_t count(StreamName stream) const {
    const auto found = counts_.find(stream);
    return found == counts_.end() ? 0 : found->second;
  }
  uint64_t tick(StreamName stream) { return ++counts_[stream]; }
  void join(const Clock& other) {
    for (const auto& [stream, count] : other.counts_) {
      uint64_t& mine = counts_[stream];
      mine = std::max(mine, count);
    }
  }

 private:
  std::map<StreamName, uint64_t> counts_;
};

}  // namespace dotresize::fake_device
