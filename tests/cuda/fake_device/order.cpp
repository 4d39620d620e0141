#include "tests/cuda/fake_device/order.h"

#include <c10/util/Exception.h>

#include <utility>

namespace dotresize::fake_device {
namespace {

/// Returns text like "aten::mm on stream 3 of cuda:0".
std::string place_of(const Access& access) {
  return access.operation + " on " + text_of(access.stream);
}

[[noreturn]] void report_race(const Access& access, const char* verb, const Access& before,
                              const char* verb_before) {
  const std::string same = before.tensor == access.tensor ? "it" : "its memory as " + before.tensor;
  TORCH_CHECK(false, "race on the GPU: ", place_of(access), " ", verb, " ", access.tensor,
              ", and does not wait for ", place_of(before), ", which ", verb_before, " ", same);
}

}  // namespace

Order& Order::get() {
  static Order* const order = new Order;  // outlives all memory
  return *order;
}

Clock& Order::clock(StreamName stream) {
  Clock& mine = streams_[stream];
  mine.join(host_);
  return mine;
}

Clock Order::record(StreamName stream) {
  const std::scoped_lock lock(mutex_);
  return clock(stream);
}

void Order::block(StreamName stream, const Clock& event) {
  const std::scoped_lock lock(mutex_);
  clock(stream).join(event);
}

void Order::synchronize(StreamName stream) {
  const std::scoped_lock lock(mutex_);
  host_.join(clock(stream));
}

void Order::synchronize(const Clock& event) {
  const std::scoped_lock lock(mutex_);
  host_.join(event);
}

void Order::synchronize_device(c10::DeviceIndex device) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [stream, clock] : streams_) {
    if (stream.device == device) host_.join(clock);
  }
}

uint64_t Order::enqueue(StreamName stream) {
  const std::scoped_lock lock(mutex_);
  if (!fault_.empty()) TORCH_CHECK(false, std::exchange(fault_, ""));
  return clock(stream).tick(stream);
}

bool Order::is_before(const Access& first, StreamName stream) {
  return clock(stream).count(first.stream) >= first.count;
}

void Order::allocate(History& history, StreamName home) {
  const std::scoped_lock lock(mutex_);
  history.home = home;
  // The memory may have been used on this stream before.
  history.written = {home, clock(home).count(home), "allocation", "it"};
}

void Order::read(History& history, const Access& access) {
  const std::scoped_lock lock(mutex_);
  if (!is_before(history.written, access.stream)) {
    report_race(access, "reads", history.written, "writes");
  }
  std::erase_if(history.reads, [&](const Access& old) { return old.stream == access.stream; });
  history.reads.push_back(access);
}

void Order::write(History& history, const Access& access) {
  const std::scoped_lock lock(mutex_);
  if (!is_before(history.written, access.stream)) {
    report_race(access, "writes", history.written, "writes");
  }
  for (const Access& read : history.reads) {
    if (!is_before(read, access.stream)) report_race(access, "writes", read, "reads");
  }
  history.written = access;
  history.reads.clear();
}

void Order::record_stream(History& history, StreamName stream) {
  const std::scoped_lock lock(mutex_);
  history.recorded.insert(stream);
}

void Order::free(const History& history) noexcept {
  const std::scoped_lock lock(mutex_);
  std::vector<Access> accesses = history.reads;
  accesses.push_back(history.written);
  for (const Access& access : accesses) {
    if (history.recorded.contains(access.stream) || is_before(access, history.home)) continue;
    fault_ = "race on the GPU: " + access.tensor + " is freed for " + text_of(history.home) +
             ", which does not wait for " + place_of(access) + " (Tensor::record_stream)";
  }
}

}  // namespace dotresize::fake_device
