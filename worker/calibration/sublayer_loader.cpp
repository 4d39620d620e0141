#include "worker/calibration/sublayer_loader.h"

#include <c10/core/InferenceMode.h>

#include "worker/transformer/load.h"
#include "worker/transformer/stream_guard.h"

namespace dotresize {
namespace {

/// Their memory is not reused before the calling thread's stream has used them.
void hand_over(const SublayerWeights& weights, at::Device device) {
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  for_each_tensor(weights, [&](const at::Tensor& tensor) { tensor.record_stream(stream); });
}

}  // namespace

SublayerWeights SublayerLoader::load(int64_t sublayer) const {
  return to_device(load_sublayer(job_.reader, job_.config, sublayer, job_.fold_dtype), job_.device);
}

SublayerWeights SublayerLoader::take(int64_t sublayer) {
  const PhaseClock::Scope scope(clock_, "read");
  if (!next_.valid()) return load(sublayer);
  SublayerWeights weights = next_.get();
  TORCH_CHECK(weights.sublayer == sublayer, "sublayer ", weights.sublayer, " was read ahead, not ",
              sublayer);
  hand_over(weights, job_.device);
  return weights;
}

void SublayerLoader::read_ahead(int64_t sublayer) {
  if (job_.device.is_cpu()) return read_sublayer_ahead(job_.reader, job_.config, sublayer);
  next_ = std::async(std::launch::async, [this, sublayer] {
    const c10::InferenceMode no_autograd;
    const StreamGuard stream(job_.device);
    SublayerWeights weights = load(sublayer);
    stream.synchronize();
    return weights;
  });
}

}  // namespace dotresize
