#include "worker/transformer/sublayer_loader.h"

#include <c10/core/InferenceMode.h>

#include "job/model/tensor_table.h"
#include "worker/transformer/load.h"
#include "worker/transformer/stage/stream_guard.h"

namespace dotresize {
namespace {

/// Prevents reuse of the tensors' memory before the calling thread's stream has used them.
void hand_over(const SublayerWeights& weights, at::Device device) {
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  for_each_tensor(weights, [&](const at::Tensor& tensor) { tensor.record_stream(stream); });
}

}  // namespace

SublayerWeights SublayerLoader::load(int64_t sublayer) const {
  return to_device(load_sublayer(reader_, config_, sublayer, dtype_), device_);
}

SublayerWeights SublayerLoader::take(int64_t sublayer) {
  if (!next_.valid()) return load(sublayer);
  SublayerWeights weights = next_.get();
  TORCH_CHECK(weights.sublayer == sublayer, "sublayer ", weights.sublayer, " was read ahead, not ",
              sublayer);
  hand_over(weights, device_);
  return weights;
}

void SublayerLoader::read_ahead(int64_t sublayer) {
  if (device_.is_cpu()) return read_sublayer_ahead(reader_, config_, sublayer);
  next_ = std::async(std::launch::async, [this, sublayer] {
    const c10::InferenceMode no_autograd;
    const StreamGuard stream(stream_);
    SublayerWeights weights = load(sublayer);
    stream.synchronize();
    return weights;
  });
}

SublayerStream::SublayerStream(Communicator& comm, const CheckpointReader& reader,
                               const ModelConfig& config, at::ScalarType dtype, at::Device device)
    : comm_(comm),
      config_(config),
      dtype_(dtype),
      device_(device),
      loader_(reader, config, dtype, device) {
  read_ahead(comm.rank());
}

SublayerWeights SublayerStream::next() {
  const int64_t sublayer = next_++;
  const int owner = rank_in_turn(comm_, sublayer);
  SublayerWeights weights;
  if (owner == comm_.rank()) {
    weights = loader_.take(sublayer);
    read_ahead(sublayer + comm_.size());
  }
  if (comm_.size() == 1) return weights;
  return broadcast_sublayer(comm_, sublayer_tensors(config_, sublayer), weights, sublayer, dtype_,
                            device_, owner);
}

void SublayerStream::read_ahead(int64_t sublayer) {
  if (sublayer < config_.num_sublayers()) loader_.read_ahead(sublayer);
}

}  // namespace dotresize
