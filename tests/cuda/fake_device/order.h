#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda/fake_device/clock.h"

namespace dotresize::fake_device {

/// An operation of a stream that reads or writes a block.
struct Access {
  StreamName stream;
  uint64_t count = 0;     ///< position in its stream, from 1
  std::string operation;  ///< like "aten::mm"
  std::string tensor;     ///< like "[4, 2] Double"
};

/// Accesses to a block of memory since its last write.
struct History {
  StreamName home;  ///< allocation stream, where the memory is reused
  Access written;   ///< last write; initially the allocation
  std::vector<Access> reads;
  std::set<StreamName> recorded;  ///< streams passed to Tensor::record_stream
};

/// Happens-before order of a GPU's operations. An operation comes after all earlier ones of its
/// stream, after the events that the stream waits for, and after everything that the host has
/// waited for. The host's threads count as one: their waits for each other are not tracked. The
/// device executes immediately, so a fault shows in the order alone, whatever the timing.
class Order {
 public:
  /// Returns the order of the process.
  static Order& get();

  Clock record(StreamName stream);
  void block(StreamName stream, const Clock& event);
  void synchronize(StreamName stream);
  void synchronize(const Clock& event);
  void synchronize_device(c10::DeviceIndex device);

  /// Adds an operation to the stream and returns its count. Throws c10::Error if a block was freed
  /// too early before.
  uint64_t enqueue(StreamName stream);
  void allocate(History& history, StreamName home);
  /// Record accesses of an operation after enqueue. Throw c10::Error, which names tensor, streams
  /// and operations, if the last conflicting access may not be complete.
  void read(History& history, const Access& access);
  void write(History& history, const Access& access);
  void record_stream(History& history, StreamName stream);
  /// Keeps the fault for the next operation, because destructors free memory.
  void free(const History& history) noexcept;

 private:
  Clock& clock(StreamName stream);
  bool is_before(const Access& first, StreamName stream);

  std::mutex mutex_;
  std::map<StreamName, Clock> streams_;
  Clock host_;
  std::string fault_;
};

}  // namespace dotresize::fake_device
