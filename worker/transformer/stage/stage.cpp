#include "worker/transformer/stage/stage.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "job/plan/block_sizes.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/load.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/stage/stage_transfers.h"

namespace dotresize {

Stage load_stage(const CheckpointReader& reader, const ModelConfig& config, const RankShard& shard,
                 int64_t end_sublayer, at::ScalarType compute_dtype, at::Device device) {
  Stage stage;
  stage.device = device;
  stage.first_sublayer = shard.first_sublayer;
  for (int64_t sublayer = shard.first_sublayer; sublayer < end_sublayer; ++sublayer) {
    stage.sublayers.push_back(
        to_device(load_sublayer(reader, config, sublayer, compute_dtype), device));
  }
  if (shard.first_sublayer == 0) {
    stage.embed = [&reader, &config, compute_dtype, device](const at::Tensor& ids) {
      return embed_from(reader, config, ids, compute_dtype, device);
    };
  }
  return stage;
}

FeatureVisitor features_of(int64_t sublayer, const SublayerVisitor& visit) {
  if (!visit) return nullptr;
  return [sublayer, &visit](int64_t expert, const at::Tensor& features) {
    visit(sublayer, expert, features);
  };
}

void stream_through_stages(Communicator& comm, const ModelConfig& config, const Stage& stage,
                           const at::Tensor& windows, const JunctionVisitor& visit,
                           const std::function<void(int64_t tokens)>& after_microbatch,
                           const SublayerVisitor& visit_features) {
  const bool first = comm.rank() == 0;
  const bool last = comm.rank() == comm.size() - 1;
  const int64_t seqlen = windows.size(1);
  const std::vector<at::Tensor> microbatches = windows.split(microbatch_samples(seqlen));
  const LayerContext context = make_layer_context(config, seqlen, stage.device);
  const auto width = config.form.junction_widths[static_cast<size_t>(stage.first_sublayer)];
  std::vector<Incoming::Message> expected;
  for (const at::Tensor& ids : microbatches) {
    if (!first) expected.push_back({comm.rank() - 1, {ids.size(0), seqlen, width}});
  }
  Incoming incoming(comm, std::move(expected), stage.device);
  Outgoing outgoing{comm, comm.rank() + 1};

  for (const at::Tensor& ids : microbatches) {
    at::Tensor x = first ? stage.embed(ids) : incoming.take();
    if (first) visit(0, x);
    for (const SublayerWeights& weights : stage.sublayers) {
      x = sublayer_forward(config, weights, context, x, nullptr,
                           features_of(weights.sublayer, visit_features));
      visit(weights.sublayer + 1, x);
    }
    if (!last) outgoing.put(x);
    after_microbatch(ids.numel());
  }
  outgoing.drain();
}

}  // namespace dotresize
