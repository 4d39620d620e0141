// One forward, one backward (Narayanan et al., "PipeDream", 2019): rank r of R starts with R-1-r
// microbatches forward. Then each further one is followed by the oldest one back. So no rank holds
// more than R-r of them, and ranks wait only at the start and the end.
//
// A transfer may block both of its ranks until it is done (NCCL), so two neighbours must start
// their transfers in the same order. A rank sends microbatch m forward before it takes the gradient
// of m-(R-1-r), hence its neighbour starts to receive m before it sends that gradient. This rules
// out a deadlock: transfers are ordered by m, then by r, then forward before backward.
#include "worker/transformer/gradient/gradient_stream.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <deque>
#include <utility>
#include <vector>

#include "job/plan/block_sizes.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/gradient/backward.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/stage/stage_transfers.h"

namespace dotresize {
namespace {

/// A microbatch in flight.
struct UnderWay {
  int64_t first_sample = 0;
  at::Tensor ids;
  std::vector<at::Tensor> x;          ///< inputs of the stage's sublayers
  std::vector<SublayerGraph> graphs;  ///< graphs of all sublayers, or empty
  at::Tensor result;                  ///< output of the last sublayer; last rank only
};

class GradientStream {
 public:
  GradientStream(Communicator& comm, const ModelConfig& config, const Stage& stage,
                 const LossOfWindows& loss)
      : comm_(comm),
        config_(config),
        stage_(stage),
        loss_(loss),
        ids_(loss.windows.split(microbatch_samples(loss.windows.size(1)))),
        count_(std::ssize(ids_)),
        ahead_(comm.size() - 1 - comm.rank()),
        first_(comm.rank() == 0),
        last_(comm.rank() == comm.size() - 1),
        keeps_graphs_(loss.checkpoints == Checkpoints::kNone),
        keeps_stage_(loss.checkpoints == Checkpoints::kStage),
        context_(make_layer_context(config, loss.windows.size(1), stage.device)),
        incoming_(comm, expected(), stage.device),
        onward_{comm, comm.rank() + 1},
        back_{comm, comm.rank() - 1} {}

  void run(const JunctionVisitor& visit, const JunctionVisitor& visit_gradient,
           const std::function<void(int64_t tokens)>& after_microbatch, PhaseClock& clock,
           const SublayerVisitor& visit_features);

 private:
  std::vector<Incoming::Message> expected() const;
  // Both return the microbatch's number of tokens.
  int64_t forward(int64_t microbatch, const JunctionVisitor& visit,
                  const SublayerVisitor& visit_features);
  int64_t backward(const JunctionVisitor& visit);
  /// Recomputes the inputs of the stage's sublayers, and the output of the last one if needed.
  void compute_again(UnderWay& kept) const;

  Communicator& comm_;
  const ModelConfig& config_;
  const Stage& stage_;
  const LossOfWindows& loss_;
  const std::vector<at::Tensor> ids_;  ///< by microbatch
  const int64_t count_;                ///< number of microbatches
  const int64_t ahead_;  ///< microbatches that this rank sends forward before the first comes back
  const bool first_;
  const bool last_;
  const bool keeps_graphs_;
  const bool keeps_stage_;
  LayerContext context_;
  Incoming incoming_;
  Outgoing onward_;
  Outgoing back_;
  std::deque<UnderWay> under_way_;
};

/// Returns the messages in the order of use. If two messages were received in another order than
/// they are needed, each could wait for the other.
std::vector<Incoming::Message> GradientStream::expected() const {
  std::vector<Incoming::Message> messages;
  const auto expect = [&](int from, int64_t microbatch, int64_t junction) {
    const at::Tensor& ids = ids_.at(static_cast<size_t>(microbatch));
    const int64_t width = config_.form.junction_widths.at(static_cast<size_t>(junction));
    messages.push_back({from, {ids.size(0), ids.size(1), width}});
  };
  const int64_t last_junction = stage_.first_sublayer + std::ssize(stage_.sublayers);
  for (int64_t m = 0; m < count_ + ahead_; ++m) {
    if (m < count_ && !first_) expect(comm_.rank() - 1, m, stage_.first_sublayer);
    if (m >= ahead_ && !last_) expect(comm_.rank() + 1, m - ahead_, last_junction);
  }
  return messages;
}

int64_t GradientStream::forward(int64_t microbatch, const JunctionVisitor& visit,
                                const SublayerVisitor& visit_features) {
  UnderWay kept;
  kept.first_sample = microbatch * ids_.front().size(0);
  kept.ids = ids_.at(static_cast<size_t>(microbatch));
  at::Tensor x = first_ ? stage_.embed(kept.ids) : incoming_.take();
  const auto see = [&](int64_t junction) {
    if (visit) visit(junction, x);
  };
  if (first_) see(0);
  for (const SublayerWeights& weights : stage_.sublayers) {
    const FeatureVisitor features = features_of(weights.sublayer, visit_features);
    if (keeps_graphs_) {
      kept.graphs.push_back(sublayer_graph(config_, weights, context_, x, features));
      x = kept.graphs.back().output.detach();
    } else {
      if (!keeps_stage_ || kept.x.empty()) kept.x.push_back(x);
      x = sublayer_forward(config_, weights, context_, x, nullptr, features);
    }
    see(weights.sublayer + 1);
  }
  if (!last_) {
    onward_.put(x);
  } else if (!keeps_stage_) {
    kept.result = x;
  }
  under_way_.push_back(std::move(kept));
  return under_way_.back().ids.numel();
}

void GradientStream::compute_again(UnderWay& kept) const {
  at::Tensor x = kept.x.front();
  for (const SublayerWeights& weights : stage_.sublayers) {
    const bool behind_first = &weights != &stage_.sublayers.front();
    if (behind_first) kept.x.push_back(x);
    if (&weights == &stage_.sublayers.back() && !last_) break;
    x = sublayer_forward(config_, weights, context_, x);
  }
  if (last_) kept.result = x;
}

int64_t GradientStream::backward(const JunctionVisitor& visit) {
  UnderWay kept = std::move(under_way_.front());
  under_way_.pop_front();
  if (keeps_stage_) compute_again(kept);
  at::Tensor g;
  if (last_) {
    g = loss_.gradient(std::exchange(kept.result, {}), kept.first_sample);
  } else {
    g = incoming_.take();
  }
  for (auto weights = stage_.sublayers.rbegin(); weights != stage_.sublayers.rend(); ++weights) {
    if (!weights->post_norm.defined()) visit(weights->sublayer + 1, g);
    // The graph, or the input that it is computed from again, is freed on the way.
    SublayerGraph graph;
    if (keeps_graphs_) {
      graph = std::move(kept.graphs.back());
      kept.graphs.pop_back();
    } else {
      graph = sublayer_graph(config_, *weights, context_, kept.x.back());
      kept.x.pop_back();
    }
    const SublayerGradients found = gradients_through(graph, *weights, g);
    if (found.update.defined()) visit(weights->sublayer + 1, found.update);
    if (loss_.visit_updates) loss_.visit_updates(weights->sublayer, found.updates);
    g = found.input;
  }
  if (first_) {
    visit(0, g);
  } else {
    incoming_.begin_from(comm_.rank() - 1);
    back_.put(g);
  }
  return kept.ids.numel();
}

void GradientStream::run(const JunctionVisitor& visit, const JunctionVisitor& visit_gradient,
                         const std::function<void(int64_t tokens)>& after_microbatch,
                         PhaseClock& clock, const SublayerVisitor& visit_features) {
  for (int64_t m = 0; m < count_ + ahead_; ++m) {
    if (m < count_) after_microbatch(forward(m, visit, visit_features));
    if (m < ahead_) continue;
    const PhaseClock::Scope scope(clock, "backward");
    after_microbatch(backward(visit_gradient));
  }
  onward_.drain();
  back_.drain();
}

}  // namespace

void stream_gradients(Communicator& comm, const ModelConfig& config, const Stage& stage,
                      const LossOfWindows& loss, const JunctionVisitor& visit,
                      const JunctionVisitor& visit_gradient,
                      const std::function<void(int64_t tokens)>& after_microbatch,
                      PhaseClock& clock, const SublayerVisitor& visit_features) {
  const c10::InferenceMode with_autograd(false);
  const c10::NoGradGuard no_grad;
  GradientStream(comm, config, stage, loss)
      .run(visit, visit_gradient, after_microbatch, clock, visit_features);
}

}  // namespace dotresize
