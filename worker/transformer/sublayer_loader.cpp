#include "worker/transformer/sublayer_loader.h"

#include <c10/core/InferenceMode.h>

#include "job/model/tensor_table.h"
#include "worker/transformer/load.h"

namespace dotresize {

SublayerWeights SublayerLoader::next() {
  SublayerWeights weights;
  if (read_.valid()) {
    weights = read_.get();
    // The tensors' memory must not be reused before the calling thread's stream has used them.
    const c10::Stream stream = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
    for_each_tensor(weights, [&](const at::Tensor& tensor) { tensor.record_stream(stream); });
  } else {
    weights = to_device(load_sublayer(reader_, config_, sublayer_, dtype_), device_);
  }
  sublayer_ += step_;
  read_ahead();
  return weights;
}

void SublayerLoader::read_ahead() {
  if (sublayer_ >= end_) return;
  if (device_.is_cpu()) {
    for (const StoredTensor& tensor : sublayer_tensors(config_, sublayer_)) {
      reader_.read_ahead(tensor.name, tensor.shape);
    }
    return;
  }
  read_ = std::async(std::launch::async, [this, sublayer = sublayer_] {
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
      loader_(reader, config, dtype, device, comm.rank(), config.num_sublayers(), comm.size()) {}

SublayerWeights SublayerStream::next() {
  const int64_t sublayer = next_++;
  const int owner = rank_in_turn(comm_, sublayer);
  SublayerWeights weights;
  if (owner == comm_.rank()) weights = loader_.next();
  if (comm_.size() == 1) return weights;
  return broadcast_sublayer(comm_, sublayer_tensors(config_, sublayer), weights, sublayer, dtype_,
                            device_, owner);
}

}  // namespace dotresize
