#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_stream.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

namespace dotresize {

/// One server-streaming call, read with a limit on each wait. Not thread-safe.
template <typename Message>
class ServerStream {
 public:
  using Reader = grpc::ClientAsyncReader<Message>;
  using Prepare =
      std::function<std::unique_ptr<Reader>(grpc::ClientContext*, grpc::CompletionQueue*)>;
  enum class Next { kMessage, kTimeout, kEnd };

  /// Starts the call. `prepare` is the stub's PrepareAsync... method. The call ends with
  /// DEADLINE_EXCEEDED after `deadline`.
  ServerStream(const Prepare& prepare, std::chrono::seconds deadline) {
    context_.set_deadline(std::chrono::system_clock::now() + deadline);
    reader_ = prepare(&context_, &queue_);
    reader_->StartCall(tag(kStarted));
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

  /// Waits at most `patience` for the next message. After kEnd, status() is the call's status.
  Next next(Message& message, std::chrono::milliseconds patience) {
    const auto give_up = std::chrono::system_clock::now() + patience;
    while (!finished_) {
      void* step = nullptr;
      bool ok = false;
      if (queue_.AsyncNext(&step, &ok, give_up) != grpc::CompletionQueue::GOT_EVENT) {
        return Next::kTimeout;
      }
      if (step == tag(kFinished)) {
        finished_ = true;
      } else if (!ok) {
        reader_->Finish(&status_, tag(kFinished));
      } else {
        const bool received = step == tag(kRead);
        if (received) message = std::exchange(incoming_, Message());
        reader_->Read(&incoming_, tag(kRead));
        if (received) return Next::kMessage;
      }
    }
    return Next::kEnd;
  }

  const grpc::Status& status() const { return status_; }

 private:
  enum Step : size_t { kStarted, kRead, kFinished };
  /// Tag of a step: gRPC needs a distinct address for each.
  void* tag(Step step) { return &steps_[step]; }

  std::array<char, 3> steps_{};
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<Reader> reader_;
  Message incoming_;
  grpc::Status status_;
  bool finished_ = false;
};

}  // namespace dotresize
