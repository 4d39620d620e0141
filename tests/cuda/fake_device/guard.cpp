// The services that c10 needs from CUDA: each thread's current device and stream, and events.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>

#include "tests/cuda/fake_device/order.h"
#include "tests/cuda/fake_device/streams.h"

namespace dotresize::fake_device {
namespace {

thread_local c10::DeviceIndex device_of_thread = 0;
thread_local std::array<c10::StreamId, kDevices> streams_of_thread{};

c10::Stream stream_named(const StreamName& name) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCUDA, name.device), name.id);
}

void check_device(c10::Device device) {
  TORCH_CHECK(device.is_cuda() && device.index() < kDevices, "no such GPU: ", device);
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  c10::Device getDevice() const override { return {c10::kCUDA, device_of_thread}; }
  void setDevice(c10::Device device) const override {
    check_device(device);
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) device_of_thread = device.index();
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }

  c10::Stream getStream(c10::Device device) const override {
    return stream_named(current_stream(index_of(device)));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return stream_named({index_of(device), 0});
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    static std::atomic<c10::StreamId> last{0};
    return stream_named({index_of(device), ++last});
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    streams_of_thread.at(static_cast<size_t>(stream.device_index())) = stream.id();
    return before;
  }
  bool queryStream(const c10::Stream& stream) const override {
    synchronizeStream(stream);
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    Order::get().synchronize(name_of(stream));
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    Order::get().synchronize_device(device);
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Clock;
    *static_cast<Clock*>(*event) = Order::get().record(name_of(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) Order::get().block(name_of(stream), *static_cast<Clock*>(event));
  }
  bool queryEvent(void* event) const override {
    synchronizeEvent(event);
    return true;
  }
  void synchronizeEvent(void* event) const override {
    if (event) Order::get().synchronize(*static_cast<Clock*>(event));
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Clock*>(event);
  }

 private:
  static c10::DeviceIndex index_of(c10::Device device) {
    check_device(device);
    return device.has_index() ? device.index() : device_of_thread;
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard);

}  // namespace

c10::DeviceIndex current_device() { return device_of_thread; }

StreamName current_stream(c10::DeviceIndex device) {
  return {device, streams_of_thread.at(static_cast<size_t>(device))};
}

}  // namespace dotresize::fake_device
