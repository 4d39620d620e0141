#include "worker/calibration/storage/background_sink.h"

#include <c10/core/InferenceMode.h>

#include <memory>
#include <utility>

#include "worker/transformer/stage/stream_guard.h"

namespace dotresize {

BackgroundSink::BackgroundSink(FoldedModelSink& sink, at::Device device, bool waits,
                               PhaseClock& clock, std::function<void()> sublayer_put)
    : sink_(sink),
      device_(device),
      stream_(device),
      waits_(waits),
      clock_(clock),
      sublayer_put_(std::move(sublayer_put)) {}

void BackgroundSink::begin(const JunctionWidths& widths) {
  finish();
  sink_.begin(widths);
}

void BackgroundSink::put_end(TensorRole role, const at::Tensor& rows, int64_t first) {
  start([this, role, rows, first] { sink_.put_end(role, rows, first); });
}

void BackgroundSink::put_sublayer(const SublayerWeights& weights) {
  start([this, weights] { sink_.put_sublayer(weights); });
  if (sublayer_put_) sublayer_put_();
}

void BackgroundSink::finish() {
  const PhaseClock::Scope scope(clock_, "write");
  if (in_flight_.valid()) in_flight_.get();
}

void BackgroundSink::start(std::function<void()> put) {
  finish();
  auto folded = std::make_shared<RecordedEvent>(device_);
  in_flight_ = std::async(std::launch::async, [this, folded, put = std::move(put)] {
    const c10::InferenceMode no_autograd;
    const StreamGuard stream(stream_, *folded);
    put();
    stream.synchronize();
  });
  if (waits_) finish();
}

}  // namespace dotresize
