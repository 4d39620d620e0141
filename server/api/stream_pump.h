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

#include "server/api_error.h"
#include "server/store/job_store.h"

namespace dotresize {

/// Answers all open calls that it is given with two threads of its own, in turn: none takes a
/// thread, and none waits longer because another one has much to send.
class StreamPump {
 public:
  class Stream {
   public:
    virtual ~Stream() = default;
    /// Sends what there is to send, or ends the call. By the pump's thread alone.
    virtual void advance() = 0;
  };

  /// `max_streams`: of one caller. `max_total`: of all.
  StreamPump(const ChangeSignal& changes, int max_streams, size_t max_total = 1024);
  ~StreamPump();

  /// Advances the stream from now on, whenever a job changes. RESOURCE_EXHAUSTED if there are too
  /// many, of this caller or altogether.
  void add(const std::shared_ptr<Stream>& stream, const std::string& caller);
  /// It can go on.
  void ready(Stream* stream);
  /// Its call is over.
  void remove(Stream* stream);

  /// How many there are.
  int size() const;

  /// All streams end: clients come back and resume.
  void stop();
  /// UNAVAILABLE once the server is stopping.
  void check_stopping() const;

 private:
  struct Entry {
    std::shared_ptr<Stream> stream;
    std::string caller;
  };

  void pump();
  void watch_changes();

  const ChangeSignal& changes_;
  const int max_streams_;
  const size_t max_total_;
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::map<Stream*, Entry> streams_;
  std::map<std::string, int> callers_;  ///< number of streams
  std::deque<Stream*> queue_;
  std::set<Stream*> queued_;
  bool stopping_ = false;
  bool ending_ = false;
  std::thread pump_;
  std::thread watcher_;
};

/// A call that sends messages until there is an end of them.
template <class Message>
class PumpedStream : public grpc::ServerWriteReactor<Message>, public StreamPump::Stream {
 public:
  PumpedStream(StreamPump& pump, const char* method) : pump_(pump), method_(method) {}

  void advance() final {
    const std::lock_guard lock(mutex_);
    if (writing_ || finished_) return;
    if (cancelled_) return finish(grpc::Status::CANCELLED);
    bool ended = false;
    const grpc::Status status = answer(method_, [&] {
      pump_.check_stopping();
      if (pending_.empty()) ended = fill(pending_);
    });
    if (!status.ok()) return finish(status);
    if (pending_.empty()) {
      if (ended) finish(status);
      return;
    }
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
  /// Appends the messages that are there. True if no more will come. Throws ApiError.
  virtual bool fill(std::deque<Message>& pending) = 0;

  void finish(const grpc::Status& status) {
    finished_ = true;
    this->Finish(status);
  }

  StreamPump& pump_;
  const char* method_;
  std::mutex mutex_;
  std::deque<Message> pending_;
  Message current_;  ///< that is being sent
  bool writing_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
};

/// A call that is refused.
template <class Message>
class RefusedStream final : public grpc::ServerWriteReactor<Message> {
 public:
  explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }
  void OnDone() final { delete this; }
};

}  // namespace dotresize
