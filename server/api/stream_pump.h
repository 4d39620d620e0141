#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/process/mutex.h"
#include "server/access/call_gate.h"
#include "server/common/api_error.h"
#include "server/store/job_store.h"

namespace dotresize {

/// Serves all its streams in turn with few threads: no stream occupies a thread, and none waits
/// because another one has much to send.
class StreamPump {
 public:
  class Stream {
   public:
    virtual ~Stream() = default;
    /// Sends what is ready, or ends the call if its permit has ended. Called by the pump's threads
    /// only, and by one at a time.
    virtual void advance(Permit& permit) = 0;
  };

  struct Limits {
    int of_one = 256;     ///< streams of one caller
    size_t total = 1024;  ///< streams of all callers
    /// Streams that may advance at once. With as many as `total`, none waits for another one, even
    /// if a disk does not answer.
    size_t threads = 1;
  };

  StreamPump(const ChangeSignal& changes, const Limits& limits);

  /// Advances the stream from now on, whenever a job changes, as long as its permit lasts. Throws
  /// RESOURCE_EXHAUSTED if there are too many streams, of this caller or in total.
  void add(const std::shared_ptr<Stream>& stream, std::shared_ptr<Permit> permit,
           const std::string& caller);
  /// Schedules the stream to advance again.
  void ready(Stream* stream);
  /// Removes a stream whose call is over.
  void remove(Stream* stream);

  /// Returns the number of streams.
  int size() const;

  /// Ends all streams; clients connect again and resume.
  void stop();
  /// Throws UNAVAILABLE once the server is stopping.
  void check_stopping() const;

 private:
  struct Entry {
    std::shared_ptr<Stream> stream;
    std::shared_ptr<Permit> permit;
    std::string caller;
    bool advances = false;  ///< a thread is at it
    bool again = false;     ///< was scheduled meanwhile
  };

  /// Does ready(), with the lock.
  void enqueue(Stream* stream) DOTRESIZE_REQUIRES(mutex_);
  void pump(const std::stop_token& stop);
  void watch_changes(const std::stop_token& stop);

  const ChangeSignal& changes_;
  const Limits limits_;
  mutable Mutex mutex_;
  Condition filled_;
  std::map<Stream*, Entry> streams_ DOTRESIZE_GUARDED_BY(mutex_);
  std::map<std::string, int> callers_
      DOTRESIZE_GUARDED_BY(mutex_);  ///< number of streams per caller
  std::deque<Stream*> queue_ DOTRESIZE_GUARDED_BY(mutex_);
  std::set<Stream*> queued_ DOTRESIZE_GUARDED_BY(mutex_);
  bool stopping_ DOTRESIZE_GUARDED_BY(mutex_) = false;  ///< clients are sent away
  std::vector<std::jthread> pumps_;                     ///< last members: they use all the others
  std::jthread watcher_;
};

/// Streaming call that sends messages until fill() reports the end.
template <class Message>
class PumpedStream : public grpc::ServerWriteReactor<Message>, public StreamPump::Stream {
 public:
  PumpedStream(StreamPump& pump, const char* method) : pump_(pump), method_(method) {}

  void advance(Permit& permit) final {
    const Lock lock(mutex_);
    if (writing_ || finished_) return;
    bool ended = false;
    grpc::Status status = grpc::Status::CANCELLED;
    if (!cancelled_) {
      status = answer(method_, [&]() DOTRESIZE_REQUIRES(mutex_) {
        pump_.check_stopping();
        permit.check();
        ended = pending_.empty() && fill(pending_);
      });
    }
    if (!status.ok() || (ended && pending_.empty())) {
      finished_ = true;
      permit.record(status);
      this->Finish(status);
      return;
    }
    if (pending_.empty()) return;
    current_ = std::move(pending_.front());
    pending_.pop_front();
    writing_ = true;
    this->StartWrite(&current_);
  }

  void OnWriteDone(bool ok) final {
    if (!ok) cancelled_ = true;
    {
      const Lock lock(mutex_);
      writing_ = false;
    }
    pump_.ready(this);
  }
  void OnCancel() final {
    cancelled_ = true;  // without the lock: fill() may wait for a disk, and gRPC must not
    pump_.ready(this);
  }
  void OnDone() final { pump_.remove(this); }

 private:
  /// Appends the messages that are available. Returns true if no more will come. Throws ApiError.
  virtual bool fill(std::deque<Message>& pending) = 0;

  StreamPump& pump_;
  const char* const method_;
  std::atomic<bool> cancelled_ = false;
  Mutex mutex_;
  std::deque<Message> pending_ DOTRESIZE_GUARDED_BY(mutex_);
  Message current_ DOTRESIZE_GUARDED_BY(mutex_);  ///< message being sent
  bool writing_ DOTRESIZE_GUARDED_BY(mutex_) = false;
  bool finished_ DOTRESIZE_GUARDED_BY(mutex_) = false;
};

/// Streaming call that ends at once with an error.
template <class Message>
class RefusedStream final : public grpc::ServerWriteReactor<Message> {
 public:
  explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }
  void OnDone() final { delete this; }
};

}  // namespace dotresize
