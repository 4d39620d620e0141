#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_stream.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "client/calls/connection.h"

namespace dotresize {

/// One server-streaming call, read with a limit on each wait. Not thread-safe.
template <typename Message>
class ServerStream {
 public:
  using Reader = grpc::ClientAsyncReader<Message>;

  /// Starts the call of `method`, a PrepareAsync... of the stub. The call ends with
  /// DEADLINE_EXCEEDED after `deadline`.
  template <class Request>
  ServerStream(Connection& connection,
               std::unique_ptr<Reader> (v1::Jobs::Stub::*method)(grpc::ClientContext*,
                                                                 const Request&,
                                                                 grpc::CompletionQueue*),
               const Request& request, std::chrono::seconds deadline) {
    connection.prepare(context_, deadline);
    reader_ = (connection.stub().*method)(&context_, request, &queue_);
    reader_->StartCall(&steps_[kStarted]);
  }

  ~ServerStream() {
    context_.TryCancel();
    queue_.Shutdown();
    void* drained_tag = nullptr;
    bool ok = false;
    while (queue_.Next(&drained_tag, &ok)) continue;
  }

  ServerStream(const ServerStream&) = delete;
  ServerStream& operator=(const ServerStream&) = delete;

  /// Passes each message to `take` until the call ends, and returns its status; OK once
  /// `interrupted` returns true. Calls `tick` whenever that time has passed without a message.
  grpc::Status read(const std::function<bool()>& interrupted, std::chrono::milliseconds tick_time,
                    const std::function<void()>& tick,
                    const std::function<void(const Message&)>& take) {
    auto give_up = std::chrono::system_clock::now() + tick_time;
    while (!interrupted()) {
      void* step = nullptr;
      bool ok = false;
      if (queue_.AsyncNext(&step, &ok, give_up) != grpc::CompletionQueue::GOT_EVENT) {
        tick();
        give_up = std::chrono::system_clock::now() + tick_time;
      } else if (step == &steps_[kFinished]) {
        return status_;
      } else if (!ok) {
        reader_->Finish(&status_, &steps_[kFinished]);
      } else {
        const bool received = step == &steps_[kRead];
        const Message message = received ? std::exchange(incoming_, Message()) : Message();
        reader_->Read(&incoming_, &steps_[kRead]);
        if (received) take(message);
        give_up = std::chrono::system_clock::now() + tick_time;
      }
    }
    return grpc::Status::OK;
  }

 private:
  enum Step : size_t { kStarted, kRead, kFinished };

  std::array<char, 3> steps_{};  ///< gRPC tells steps apart by an address of each
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<Reader> reader_;
  Message incoming_;
  grpc::Status status_;
};

}  // namespace dotresize
