#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

namespace dotresize {

/// Event recorded on the calling thread's current stream of a GPU. Does nothing on the CPU.
class RecordedEvent {
 public:
  explicit RecordedEvent(at::Device device) {
    if (device.is_cpu()) return;
    event_.emplace(device.type());
    event_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }
  /// Makes later work on the stream wait for the event.
  void block(const c10::Stream& stream) const {
    if (event_) stream.wait(*event_);
  }

 private:
  std::optional<c10::Event> event_;
};

/// Stream from the pool that one reader or writer keeps. Memory freed on a stream is reused only on
/// that stream, so a new stream for each task would leave blocks that are never reused. Empty on
/// the CPU.
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

/// Makes the kept stream the calling thread's current stream of the GPU, so that its work runs
/// concurrently with that of other threads. Tensors made during its lifetime and used on another
/// stream need Tensor::record_stream. Does nothing on the CPU.
class StreamGuard {
 public:
  explicit StreamGuard(const KeptStream& kept) {
    if (kept.get()) guard_.emplace(*kept.get());
  }
  /// Also makes work on the stream wait for the event.
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
