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
  uint64_t count = 0;     ///< of the stream's operations, this one included
  std::string operation;  ///< "aten::mm"
  std::string tensor;     ///< "[4, 2] Double"
};

/// What streams have done with a block of memory that nobody has written since.
struct History {
  StreamName home;  ///< the stream that it was allocated on, and on which it is used again
  Access written;   ///< last; at first its allocation
  std::vector<Access> reads;
  std::set<StreamName> recorded;  ///< by Tensor::record_stream
};

/// Which operation of a GPU comes before which. An operation comes after all of its stream, after
/// the events that the stream waits for, and after what the host has waited for. The host's
/// threads count as one: how they wait for each other is not seen. The device executes at once, so
/// a fault shows in the order alone, whatever the timing.
class Order {
 public:
  /// Of the process.
  static Order& get();

  Clock record(StreamName stream);
  void block(StreamName stream, const Clock& event);
  void synchronize(StreamName stream);
  void synchronize(const Clock& event);
  void synchronize_device(c10::DeviceIndex device);

  /// Puts an operation on the stream and returns its count. Throws c10::Error with the fault of a
  /// block that was freed too early.
  uint64_t enqueue(StreamName stream);
  void allocate(History& history, StreamName home);
  /// Of an operation that was enqueued. Throws c10::Error, which names tensor, streams and
  /// operations, if the last access that conflicts with it may not be done.
  void read(History& history, const Access& access);
  void write(History& history, const Access& access);
  void record_stream(History& history, StreamName stream);
  /// Keeps the fault for the next operation: memory is freed in destructors.
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
