#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "server/access/call_gate.h"
#include "server/api_error.h"
#include "server/store/job_store.h"

namespace dotresize {

/// Serves all its streams in turn with two threads: no stream occupies a thread, and none waits
/// because another one has much to send.
class StreamPump {
 public:
  class Stream {
   public:
    virtual ~Stream() = default;
    /// Sends what is ready, or ends the call if its permit has ended. Called by the pump's thread
    /// only.
    virtual void advance(Permit& permit) = 0;
  };

  /// `max_streams`: streams of one caller. `max_total`: streams of all callers.
  StreamPump(const ChangeSignal& changes, int max_streams, size_t max_total = 1024);

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
  };

  void pump(const std::stop_token& stop);
  void watch_changes(const std::stop_token& stop);

  const ChangeSignal& changes_;
  const int max_streams_;
  const size_t max_total_;
  mutable std::mutex mutex_;  ///< guards what follows, up to the threads
  std::condition_variable_any filled_;
  std::map<Stream*, Entry> streams_;
  std::map<std::string, int> callers_;  ///< number of streams per caller
  std::deque<Stream*> queue_;
  std::set<Stream*> queued_;
  bool stopping_ = false;  ///< clients are sent away
  std::jthread pump_;      ///< last members: they use all the others
  std::jthread watcher_;
};

/// Streaming call that sends messages until fill() reports the end.
template <class Message>
class PumpedStream : public grpc::ServerWriteReactor<Message>, public StreamPump::Stream {
 public:
  PumpedStream(StreamPump& pump, const char* method) : pump_(pump), method_(method) {}

  void advance(Permit& permit) final {
    const std::lock_guard lock(mutex_);
    if (writing_ || finished_) return;
    bool ended = false;
    grpc::Status status = grpc::Status::CANCELLED;
    if (!cancelled_) {
      status = answer(method_, [&] {
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
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      cancelled_ = cancelled_ || !ok;
    }
    pump_.ready(this);
  }
  void OnCancel() final {
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
    }
    pump_.ready(this);
  }
  void OnDone() final { pump_.remove(this); }

 private:
  /// Appends the messages that are available. Returns true if no more will come. Throws ApiError.
  virtual bool fill(std::deque<Message>& pending) = 0;

  StreamPump& pump_;
  const char* const method_;
  std::mutex mutex_;  ///< guards what follows
  std::deque<Message> pending_;
  Message current_;  ///< message being sent
  bool writing_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
};

/// Streaming call that ends at once with an error.
template <class Message>
class RefusedStream final : public grpc::ServerWriteReactor<Message> {
 public:
  explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }
  void OnDone() final { delete this; }
};

}  // namespace dotresize
