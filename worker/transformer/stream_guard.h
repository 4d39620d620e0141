#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

namespace dotresize {

/// An event recorded on the calling thread's current stream of a GPU. On the CPU: nothing.
class RecordedEvent {
 public:
  explicit RecordedEvent(at::Device device) {
    if (device.is_cpu()) return;
    event_.emplace(device.type());
    event_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }
  /// What is launched on the stream from now on starts after the event.
  void block(const c10::Stream& stream) const {
    if (event_) stream.wait(*event_);
  }

 private:
  std::optional<c10::Event> event_;
};

/// A stream of the pool for one reader or writer to keep: memory that was freed on a stream is
/// reused only on that stream, so a new one for each task would leave blocks behind that nobody
/// uses again. On the CPU there is none.
class KeptStream {
 public:
  explicit KeptStream(at::Device device) {
    if (device.is_cpu()) return;
    stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }
  const std::optional<c10::Stream>& get() const { return stream_; }

 private:
  std::optional<c10::Stream> stream_;
};

/// As long as it lives, the calling thread's current stream of the GPU is the kept one, so that
/// its work runs concurrently with that of other threads. Tensors that are made meanwhile and used
/// on another stream need Tensor::record_stream. On the CPU it does nothing.
class StreamGuard {
 public:
  explicit StreamGuard(const KeptStream& kept) {
    if (kept.get()) guard_.emplace(*kept.get());
  }
  /// The work on the stream starts after the event.
  StreamGuard(const KeptStream& kept, const RecordedEvent& event) : StreamGuard(kept) {
    if (guard_) event.block(guard_->current_stream());
  }
  /// Waits for all work on the stream.
  void synchronize() const {
    if (guard_) guard_->current_stream().synchronize();
  }

 private:
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace dotresize
