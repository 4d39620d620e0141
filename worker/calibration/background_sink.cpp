#include "worker/calibration/background_sink.h"

#include <c10/core/InferenceMode.h>

#include <memory>
#include <utility>

#include "worker/transformer/own_stream.h"

namespace dotresize {

BackgroundSink::BackgroundSink(FoldedModelSink& sink, at::Device device, PhaseClock& clock)
    : sink_(sink), device_(device), clock_(clock) {}

void BackgroundSink::begin(const JunctionWidths& widths) {
  finish();
  sink_.begin(widths);
}

void BackgroundSink::put_embedding(const at::Tensor& embedding) {
  start([this, embedding] { sink_.put_embedding(embedding); });
}

void BackgroundSink::put_sublayer(const SublayerWeights& weights) {
  start([this, weights] { sink_.put_sublayer(weights); });
}

void BackgroundSink::put_head(const HeadWeights& head) {
  start([this, head] { sink_.put_head(head); });
}

void BackgroundSink::finish() {
  const PhaseClock::Scope scope(clock_, "write");
  if (under_way_.valid()) under_way_.get();
}

void BackgroundSink::start(std::function<void()> put) {
  finish();
  auto folded = std::make_shared<WorkSoFar>(device_);
  under_way_ = std::async(std::launch::async, [this, folded, put = std::move(put)] {
    const c10::InferenceMode no_autograd;
    const OwnStream stream(device_, *folded);
    put();
    stream.finish();
  });
}

}  // namespace dotresize
