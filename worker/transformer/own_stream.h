#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

namespace dotresize {

/// All that was started on a GPU up to here by the thread that makes the object. On the CPU:
/// nothing ever is.
class WorkSoFar {
 public:
  explicit WorkSoFar(at::Device device) {
    if (device.is_cpu()) return;
    done_.emplace(device.type());
    done_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }
  /// What is put on the stream from now on begins after it.
  void precede(const c10::Stream& stream) const {
    if (done_) stream.wait(*done_);
  }

 private:
  std::optional<c10::Event> done_;
};

/// As long as it lives, what the calling thread starts on the device runs beside what other threads
/// start there, but for what was `before`: on a stream of its own. On the CPU it does nothing.
/// Tensors that are made meanwhile, and used on another stream, must be told so
/// (Tensor::record_stream).
class OwnStream {
 public:
  explicit OwnStream(at::Device device) {
    if (device.is_cpu()) return;
    guard_.emplace(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
  }
  OwnStream(at::Device device, const WorkSoFar& before) : OwnStream(device) {
    if (guard_) before.precede(guard_->current_stream());
  }
  /// Waits until all of it is done.
  void finish() const {
    if (guard_) guard_->current_stream().synchronize();
  }

 private:
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace dotresize
