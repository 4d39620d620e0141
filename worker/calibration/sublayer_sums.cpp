#include "worker/calibration/sublayer_sums.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "worker/calibration/reason.h"
#include "worker/calibration/schedules/token_parallel_moments.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/sublayer_loader.h"

namespace dotresize {

SublayerSums SublayerSums::copied(bool to_host) const {
  SublayerSums copy = *this;
  for (Moments& of : copy.features) of = of.copied(to_host);
  if (copy.gradients) copy.gradients = copy.gradients->copied(to_host);
  return copy;
}

SublayerPasses::SublayerPasses(Communicator& comm, const CalibrationJob& job,
                               const CalibrationObserver& observer, PhaseClock& clock)
    : comm_(comm),
      job_(job),
      observer_(observer),
      clock_(clock),
      passes_(comm, job, observer, clock) {}

SublayerSums SublayerPasses::no_sums(int64_t sublayer, const std::vector<SumBounds>& bounds) const {
  SublayerSums sums{.sublayer = sublayer, .features = {}, .tokens = {}, .gradients = {}};
  const bool attends = is_attention(sublayer);
  const std::vector<int64_t> widths =
      attends ? std::vector{attention_features(job_.config.attention(sublayer))}
              : features_of_mlps(job_.config, sublayer);
  // Tensors made in inference mode could not be added to during the backward pass.
  std::optional<c10::InferenceMode> with_autograd;
  if (job_.map.metric == Metric::kFisher) with_autograd.emplace(false);
  for (size_t mlp = 0; mlp < widths.size(); ++mlp) {
    MomentOptions options{.what = attends ? "values of the attention" : "features of the MLP",
                          .packed = bounds.empty() && job_.halves_precision()};
    if (!bounds.empty()) options.reproducible = bounds.at(mlp);
    sums.features.emplace_back(widths[mlp], MomentKinds{.gram = true}, job_.device, options);
  }
  sums.tokens.resize(widths.size(), 0);
  return sums;
}

Moments SublayerPasses::no_gradients() const {
  // See no_sums().
  const c10::InferenceMode with_autograd(false);
  return {job_.config.hidden_size, MomentKinds{.gram = true}, job_.device,
          MomentOptions{.what = "gradients of the loss", .packed = job_.halves_precision()}};
}

void SublayerPasses::add_features(SublayerSums& sums, int64_t mlp, const at::Tensor& h) const {
  const PhaseClock::Scope scope(clock_, "gram", sublayer_name(sums.sublayer));
  with_context(sublayer_name(sums.sublayer),
               [&] { sums.features.at(static_cast<size_t>(mlp)).add(h.to(at::kFloat)); });
  sums.tokens.at(static_cast<size_t>(mlp)) += h.numel() / h.size(-1);
}

void SublayerPasses::add_gradient(Moments& sums, int64_t junction, const at::Tensor& g) const {
  const PhaseClock::Scope scope(clock_, "gram", junction_name(junction));
  with_context("junction " + junction_name(junction), [&] { sums.add(g); });
}

void SublayerPasses::gradients(const std::vector<int64_t>& sublayers, const TokenRound& round,
                               const std::function<void(int64_t sublayer, Moments)>& visit) {
  std::map<int64_t, Moments> sums;
  for (const int64_t sublayer : sublayers) sums.emplace(sublayer, no_gradients());
  passes_.run({.windows = round.windows,
               .numbers = round.numbers,
               .see_state = [](int64_t, const at::Tensor&) {},
               .see_gradient =
                   [&](int64_t junction, const at::Tensor& g) {
                     const auto found = sums.find(junction - 1);
                     if (found != sums.end()) add_gradient(found->second, junction, g);
                   },
               .see_features = [](int64_t, int64_t, const at::Tensor&) {}});
  passes_.unload();
  for (auto& [sublayer, moments] : sums) visit(sublayer, std::move(moments));
}

void SublayerPasses::sum(std::vector<SublayerSums>& group, const TokenRound& round) {
  const auto find = [&](int64_t sublayer) {
    const auto found = std::ranges::find(group, sublayer, &SublayerSums::sublayer);
    return found == group.end() ? nullptr : &*found;
  };
  Pass pass{.windows = round.windows,
            .numbers = round.numbers,
            .see_state = [](int64_t, const at::Tensor&) {},
            .see_features =
                [&](int64_t sublayer, int64_t mlp, const at::Tensor& h) {
                  if (SublayerSums* sums = find(sublayer)) add_features(*sums, mlp, h);
                }};
  if (round.gradients) {
    pass.see_gradient = [&](int64_t junction, const at::Tensor& g) {
      if (SublayerSums* sums = find(junction - 1)) add_gradient(*sums->gradients, junction, g);
    };
  }
  passes_.run(pass);
}

void SublayerPasses::in_stages(
    const std::vector<int64_t>& sublayers, const std::vector<TokenRound>& rounds,
    const std::function<std::optional<SublayerSums>(int64_t sublayer)>& begun,
    const std::function<void(SublayerSums)>& visit) {
  const bool gradients = std::ranges::any_of(rounds, &TokenRound::gradients);
  const auto at_once = [](const RankShard& shard) { return shard.cuts_at_once; };
  passes_.in_parts(sublayers, at_once, [&](std::span<const int64_t> part, int64_t) {
    std::vector<SublayerSums> group;
    for (const int64_t sublayer : part) {
      const c10::InferenceMode with_autograd(false);  // see no_sums()
      std::optional<SublayerSums> known = begun(sublayer);
      group.push_back(known ? std::move(*known) : no_sums(sublayer));
      if (gradients) group.back().gradients.emplace(no_gradients());
    }
    for (const TokenRound& round : rounds) sum(group, round);
    passes_.unload();               // the work on the sums needs the memory
    if (job_.halves_precision()) {  // the GPU has room for one at a time
      for (SublayerSums& sums : group) sums = sums.copied(/*to_host=*/true);
    }
    for (SublayerSums& sums : group) visit(std::move(sums));
  });
}

std::vector<SumBounds> SublayerPasses::bounds_of(const SublayerWeights& weights,
                                                 const LayerContext& context,
                                                 const Microbatches& x) const {
  const int64_t count = std::ssize(features_of_mlps(job_.config, weights.sublayer));
  at::Tensor norms = at::zeros({comm_.size(), count}, at::kDouble);
  at::Tensor mine = norms[comm_.rank()];
  const auto visit = [&](int64_t mlp, const at::Tensor& h) {
    const at::Tensor norm = at::linalg_vector_norm(h, 2, at::IntArrayRef{-1}, false, at::kDouble);
    mine[mlp] = std::max(mine[mlp].item<double>(), norm.max().item<double>());
  };
  for (const at::Tensor& batch : x) {
    sublayer_forward(job_.config, weights, context, batch, nullptr, visit);
  }
  comm_.all_reduce_sum(norms);  // exact: all summands but one are zero
  const at::Tensor largest = norms.amax(0);
  std::vector<SumBounds> bounds;
  for (int64_t mlp = 0; mlp < count; ++mlp) {
    bounds.push_back({job_.windows.numel(), largest[mlp].item<double>()});
  }
  return bounds;
}

void SublayerPasses::over_ranks(const std::set<int64_t>& wanted,
                                const std::function<void(SublayerSums)>& visit) {
  if (wanted.empty()) return;
  const LayerContext context = make_layer_context(job_.config, job_.windows.size(1), job_.device);
  Microbatches x = embed_share(comm_, job_, job_.compute_dtype, clock_);
  SublayerStream sublayers(comm_, job_.reader, job_.config, job_.compute_dtype, job_.device);
  for (int64_t s = 0; s <= *wanted.rbegin(); ++s) {
    const PhaseClock::Scope scope(clock_, "forward");
    const SublayerWeights weights = sublayers.next();
    std::optional<SublayerSums> sums;
    FeatureVisitor add;
    if (wanted.contains(s)) {
      sums = no_sums(s, bounds_of(weights, context, x));
      add = [&](int64_t mlp, const at::Tensor& h) { add_features(*sums, mlp, h); };
    }
    for (at::Tensor& batch : x) {
      batch = sublayer_forward(job_.config, weights, context, batch, nullptr, add);
      observer_.tokens_seen(batch.size(0) * batch.size(1));
    }
    if (!sums) continue;
    const int owner = rank_in_turn(comm_, layer_of(s));
    for (Moments& features : sums->features) comm_.reduce_sum(features.gram, owner);
    at::Tensor counts = at::tensor(sums->tokens, at::kDouble);
    comm_.all_reduce_sum(counts);
    for (size_t mlp = 0; mlp < sums->tokens.size(); ++mlp) {
      sums->tokens[mlp] = std::llround(counts[static_cast<int64_t>(mlp)].item<double>());
    }
    if (owner == comm_.rank()) visit(std::move(*sums));
  }
}

}  // namespace dotresize
