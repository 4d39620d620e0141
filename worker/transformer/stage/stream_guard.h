#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

namespace dotresize {

/// Event recorded on the calling thread's current stream of a GPU. Empty on the CPU.
struct RecordedEvent {
  explicit RecordedEvent(at::Device device) {
    if (device.is_cpu()) return;
    event.emplace(device.type());
    event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }

  std::optional<c10::Event> event;
};

/// Stream from the pool that one reader or writer keeps. Memory freed on a stream is reused only on
/// that stream, so a new stream for each task would leave blocks that are never reused. Empty on
/// the CPU.
struct KeptStream {
  explicit KeptStream(at::Device device) {
    if (device.is_cpu()) return;
    stream = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }

  std::optional<c10::Stream> stream;
};

/// Makes the kept stream the calling thread's current stream of the GPU, so that its work runs
/// concurrently with that of other threads. Tensors made during its lifetime and used on another
/// stream need Tensor::record_stream. Does nothing on the CPU.
class StreamGuard {
 public:
  /// Also makes work on the stream wait for the event, if it is not empty.
  explicit StreamGuard(const KeptStream& kept,
                       const RecordedEvent& event = RecordedEvent(at::kCPU)) {
    if (kept.stream) guard_.emplace(*kept.stream);
    if (guard_ && event.event) guard_->current_stream().wait(*event.event);
  }
  /// Waits for all work on the stream.
  void synchronize() const {
    if (guard_) guard_->current_stream().synchronize();
  }

 private:
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace dotresize
