#include "worker/transformer/sublayer_loader.h"

#include <c10/core/InferenceMode.h>

#include "job/model/tensor_table.h"
#include "worker/transformer/load.h"

namespace dotresize {

SublayerWeights SublayerLoader::take(int64_t sublayer) {
  if (!next_.valid()) return to_device(load_sublayer(reader_, config_, sublayer, dtype_), device_);
  SublayerWeights weights = next_.get();
  TORCH_CHECK(weights.sublayer == sublayer, "sublayer ", weights.sublayer, " was read ahead, not ",
              sublayer);
  // The tensors' memory must not be reused before the calling thread's stream has used them.
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  for_each_tensor(weights, [&](const at::Tensor& tensor) { tensor.record_stream(stream); });
  return weights;
}

void SublayerLoader::read_ahead(int64_t sublayer) {
  if (sublayer >= end_) return;
  if (device_.is_cpu()) {
    for (const StoredTensor& tensor : sublayer_tensors(config_, sublayer)) {
      reader_.read_ahead(tensor.name, tensor.shape);
    }
    return;
  }
  next_ = std::async(std::launch::async, [this, sublayer] {
    const c10::InferenceMode no_autograd;
    const StreamGuard stream(stream_);
    SublayerWeights weights = to_device(load_sublayer(reader_, config_, sublayer, dtype_), device_);
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
      loader_(reader, config, dtype, device, config.num_sublayers()) {
  loader_.read_ahead(comm.rank());
}

SublayerWeights SublayerStream::next() {
  const int64_t sublayer = next_++;
  const int owner = rank_in_turn(comm_, sublayer);
  SublayerWeights weights;
  if (owner == comm_.rank()) {
    weights = loader_.take(sublayer);
    loader_.read_ahead(sublayer + comm_.size());
  }
  if (comm_.size() == 1) return weights;
  return broadcast_sublayer(comm_, sublayer_tensors(config_, sublayer), weights, sublayer, dtype_,
                            device_, owner);
}

}  // namespace dotresize
