#include "server/api/stream_pump.h"

#include <chrono>
#include <utility>

namespace dotresize {
namespace {

// Streams are also advanced at this interval: nothing signals that a log has grown.
constexpr std::chrono::milliseconds kLogInterval{250};
// Changes within this interval are handled together.
constexpr std::chrono::milliseconds kLeastInterval{20};

}  // namespace

StreamPump::StreamPump(const ChangeSignal& changes, const Limits& limits)
    : changes_(changes), limits_(limits) {
  for (size_t i = 0; i < limits_.threads; ++i) {
    pumps_.emplace_back([this](const std::stop_token& stop) { pump(stop); });
  }
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch_changes(stop); });
}

void StreamPump::add(const std::shared_ptr<Stream>& stream, std::shared_ptr<Permit> permit,
                     const std::string& caller) {
  {
    const Lock lock(mutex_);
    if (streams_.size() >= limits_.total || callers_[caller] >= limits_.of_one) {
      throw try_again(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS",
                      "too many calls of this kind are open on this server; try again later");
    }
    ++callers_[caller];
    streams_[stream.get()] = {stream, std::move(permit), caller};
  }
  ready(stream.get());
}

void StreamPump::ready(Stream* stream) {
  const Lock lock(mutex_);
  enqueue(stream);
}

void StreamPump::enqueue(Stream* stream) {
  if (!queued_.insert(stream).second) return;
  queue_.push_back(stream);
  filled_.notify_one();
}

void StreamPump::remove(Stream* stream) {
  std::shared_ptr<Stream> last;  // outlives the lock: destroyed after it is released
  const Lock lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  last = found->second.stream;
  const auto caller = callers_.find(found->second.caller);
  if (--caller->second == 0) callers_.erase(caller);
  streams_.erase(found);
}

int StreamPump::size() const {
  const Lock lock(mutex_);
  return static_cast<int>(streams_.size());
}

void StreamPump::stop() {
  const Lock lock(mutex_);
  stopping_ = true;
}

void StreamPump::check_stopping() const {
  const Lock lock(mutex_);
  if (!stopping_) return;
  throw try_again(grpc::StatusCode::UNAVAILABLE, "SERVER_STOPPING",
                  "the server is stopping; its jobs continue: connect again to follow them");
}

void StreamPump::pump(const std::stop_token& stop) {
  Lock lock(mutex_);
  while (filled_.wait(lock, stop, [this]() DOTRESIZE_REQUIRES(mutex_) {
    return !queue_.empty();
  }) && !stop.stop_requested()) {
    Stream* next = queue_.front();
    queue_.pop_front();
    queued_.erase(next);
    const auto found = streams_.find(next);
    if (found == streams_.end()) continue;  // removed while queued
    if (found->second.advances) {
      found->second.again = true;
      continue;
    }
    found->second.advances = true;
    {
      // Keeps the stream while it advances, even if its call ends.
      const Entry entry = found->second;
      lock.unlock();
      entry.stream->advance(*entry.permit);
      lock.lock();
      if (const auto left = streams_.find(next); left != streams_.end()) {
        left->second.advances = false;
        if (std::exchange(left->second.again, false)) enqueue(next);
      }
      lock.unlock();  // destroying the stream closes its file, which may wait for a disk
    }
    lock.lock();
  }
}

void StreamPump::watch_changes(const std::stop_token& stop) {
  uint64_t version = changes_.version();
  while (!stop.stop_requested()) {
    changes_.wait_past(version, kLogInterval);
    version = changes_.version();
    {
      const Lock lock(mutex_);
      for (const auto& [stream, entry] : streams_) enqueue(stream);
    }
    std::this_thread::sleep_for(kLeastInterval);
  }
}

}  // namespace dotresize
