#include "worker/calibration/sublayer_cuts.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "job/model/tensor_table.h"
#include "job/plan/allocate/inner_widths.h"
#include "worker/calibration/cut_tensors.h"
#include "worker/calibration/junction_groups.h"
#include "worker/calibration/reason.h"
#include "worker/calibration/schedules/token_parallel_moments.h"
#include "worker/calibration/storage/statistics.h"
#include "worker/maps/describe/spectrum.h"
#include "worker/maps/metric.h"
#include "worker/maps/moments.h"
#include "worker/maps/removal/feature_removal.h"
#include "worker/maps/removal/value_removal.h"
#include "worker/maps/scoped_threads.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/gradient/gradient_stream.h"
#include "worker/transformer/load.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/sublayer_loader.h"

namespace dotresize {
namespace {

constexpr char kLossIncrease[] = "predicted_rise";  // [cut matrices] float64
constexpr char kTokens[] = "tokens";                // [cut matrices] int64
constexpr char kLossIncreases[] = "rises";  // [possible widths] float64, summed over experts
constexpr char kWidths[] = "widths";        // [possible widths] int64
constexpr char kOrder[] = "order";          // [matrices, removed features] int64, MLPs only

/// Name of a cut's entry. It includes the width, because a job may cut a sublayer to several
/// widths.
std::string cut_entry(int64_t sublayer, int64_t width, bool for_trial) {
  return fmt::format("{}{}-{}-{}", for_trial ? "trial-" : "",
                     is_attention(sublayer) ? "values" : "mlp", sublayer, width);
}

/// Return copies that share no memory with the sums.
SublayerSums on_host(const SublayerSums& sums) {
  SublayerSums copy = sums;
  for (Moments& features : copy.features) features = features.on_host();
  if (copy.gradients) copy.gradients = copy.gradients->on_host();
  return copy;
}
SublayerSums on_device(const SublayerSums& sums) {
  SublayerSums copy = sums;
  for (Moments& features : copy.features) features = features.on_device();
  if (copy.gradients) copy.gradients = copy.gradients->on_device();
  return copy;
}

bool is_cut(const ModelConfig& dense, const ModelConfig& cut, int64_t sublayer) {
  return inner_width(cut, sublayer) < inner_width(dense, sublayer);
}

class SublayerCuts {
 public:
  SublayerCuts(Communicator& comm, const CalibrationJob& job, const CalibrationObserver& observer,
               PhaseClock& clock, AllocationSums* sums = nullptr)
      : comm_(comm),
        job_(job),
        observer_(observer),
        clock_(clock),
        of_allocation_(sums),
        writing_(job.journal) {}

  /// Writes the curves of all sublayers that the job may cut to the journal.
  void measure(const ResolvedJob& job, const DenseRound* together);
  // Cut to the widths of `cut_model`.
  void run_stages(const ModelConfig& cut_model);
  void run_shares(const ModelConfig& cut_model);

 private:
  bool gradients() const { return job_.map.metric == Metric::kFisher; }
  bool has_order(int64_t sublayer) const {
    return !job_.refits && !is_attention(sublayer) &&
           job_.first_round_journal().has(curve_entry(sublayer));
  }
  bool sums_gradients(int64_t sublayer) const {
    return gradients() && !has_order(sublayer) &&
           !(of_allocation_ && of_allocation_->has_metric(sublayer + 1));
  }
  AttentionHeads heads() const {
    return {job_.config.attention.num_heads, job_.config.attention.num_kv_heads};
  }
  /// Returns this rank's sublayers that are `wanted` and have no entry in the journal.
  std::vector<int64_t> pending(const Journal& journal,
                               const std::function<std::string(int64_t sublayer)>& entry,
                               const std::function<bool(int64_t sublayer)>& wanted) const;
  /// Sums the features of these sublayers of this rank, as many at a time as there is memory for,
  /// and passes each to `visit`. Packed sums are passed on the host. Collective.
  void for_sums_of(const std::vector<int64_t>& sublayers, const DenseRound* together,
                   const std::function<void(SublayerSums)>& visit);
  void load(bool with_head);
  /// Returns empty sums. `bounds`: bounds of each MLP's sums if ranks add them up, else empty.
  SublayerSums no_sums(int64_t sublayer, const std::vector<SumBounds>& bounds = {}) const;
  /// Returns the bounds of the features over all ranks' tokens.
  std::vector<SumBounds> bounds_of(const SublayerWeights& weights, const RotaryTable& rotary,
                                   const Microbatches& x);
  /// Returns the rank that cuts an MLP if ranks share the tokens.
  int owner_of(int64_t sublayer) const { return rank_in_turn(comm_, layer_of(sublayer)); }
  /// Returns the sums of all ranks, valid at the owner, and replaces x by the sublayer's output.
  SublayerSums sum_over_ranks(const SublayerWeights& weights, const RotaryTable& rotary,
                              Microbatches& x);
  void add_features(SublayerSums& sums, int64_t mlp, const at::Tensor& h) const;
  void sum(std::vector<SublayerSums>& group, const DenseRound* together);
  /// Cuts the sublayer and starts to write it; the next one is computed meanwhile.
  void cut(SublayerSums sums, int64_t width);
  // Return the changed tensors, and append the predicted loss increase of each matrix to
  // `loss_increases`.
  std::map<std::string, at::Tensor> cut_features(SublayerSums& sums, int64_t width,
                                                 std::vector<double>& loss_increases) const;
  std::map<std::string, at::Tensor> cut_values(SublayerSums& sums, int64_t width,
                                               std::vector<double>& loss_increases) const;
  at::Tensor metric_of(SublayerSums& sums) const;
  /// Calls visit(E[hᵀh], out_proj, L) for the attention, the MLP, or each expert, and frees the
  /// sums. L is undefined if the metric is the identity, or if the order is known.
  void for_each_out_proj(
      SublayerSums& sums,
      const std::function<void(at::Tensor, const at::Tensor&, const at::Tensor&)>& visit) const;
  std::map<std::string, at::Tensor> curve(SublayerSums& sums,
                                          const std::vector<int64_t>& widths) const;
  /// Reads the predicted loss increase at a width from the first round of an allocation.
  double loss_increase_in_curve(int64_t sublayer, int64_t width) const;
  double tokens() const { return static_cast<double>(job_.windows.numel()); }

  Communicator& comm_;
  const CalibrationJob& job_;
  const CalibrationObserver& observer_;
  PhaseClock& clock_;
  AllocationSums* of_allocation_;  ///< may be null
  std::optional<Stage> stage_;     ///< set during a pass
  HeadWeights head_;               ///< last rank only, set during a backward pass
  BackgroundEntry writing_;        ///< writer of the last cut
};

std::vector<int64_t> SublayerCuts::pending(
    const Journal& journal, const std::function<std::string(int64_t sublayer)>& entry,
    const std::function<bool(int64_t sublayer)>& wanted) const {
  const RankShard& shard = job_.shard(comm_);
  std::vector<int64_t> sublayers;
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
    if (wanted(s) && !journal.has(entry(s))) sublayers.push_back(s);
  }
  return sublayers;
}

void SublayerCuts::load(bool with_head) {
  const PhaseClock::Scope scope(clock_, "read");
  // Tensors for autograd's backward pass must not be made in inference mode.
  std::optional<c10::InferenceMode> with_autograd;
  if (gradients()) with_autograd.emplace(false);
  const RankShard& shard = job_.shard(comm_);
  stage_ = load_stage(job_.reader, job_.config, shard, shard.end_sublayer, job_.compute_dtype,
                      job_.device);
  if (with_head && comm_.rank() == comm_.size() - 1) {
    head_ = to_device(load_head(job_.reader, job_.config, job_.compute_dtype), job_.device);
  }
}

SublayerSums SublayerCuts::no_sums(int64_t sublayer, const std::vector<SumBounds>& bounds) const {
  SublayerSums sums{.sublayer = sublayer, .features = {}, .tokens = {}, .gradients = {}};
  const bool attends = is_attention(sublayer);
  const int64_t count = attends ? 1 : mlp_count(job_.config, sublayer);
  const int64_t width =
      attends ? attention_features(job_.config) : mlp_width(job_.config, sublayer);
  // Tensors made in inference mode could not be added to during the backward pass.
  std::optional<c10::InferenceMode> with_autograd;
  if (gradients()) with_autograd.emplace(false);
  for (int64_t mlp = 0; mlp < count; ++mlp) {
    MomentOptions options{.what = attends ? "values of the attention" : "features of the MLP",
                          .packed = bounds.empty() && job_.packs_sums()};
    if (!bounds.empty()) options.reproducible = bounds.at(static_cast<size_t>(mlp));
    sums.features.emplace_back(width, MomentKinds{.gram = true}, job_.device, options);
  }
  sums.tokens.resize(static_cast<size_t>(count), 0);
  if (sums_gradients(sublayer)) {
    sums.gradients.emplace(
        job_.config.hidden_size, MomentKinds{.gram = true}, job_.device,
        MomentOptions{.what = "gradients of the loss", .packed = job_.packs_sums()});
  }
  return sums;
}

void SublayerCuts::add_features(SublayerSums& sums, int64_t mlp, const at::Tensor& h) const {
  const PhaseClock::Scope scope(clock_, "gram", sublayer_name(sums.sublayer));
  with_context(sublayer_name(sums.sublayer),
               [&] { sums.features.at(static_cast<size_t>(mlp)).add(h.to(at::kFloat)); });
  sums.tokens.at(static_cast<size_t>(mlp)) += h.numel() / h.size(-1);
}

void SublayerCuts::sum(std::vector<SublayerSums>& group, const DenseRound* together) {
  const auto wants_gradients = [](const SublayerSums& sums) { return sums.gradients.has_value(); };
  const bool here = together != nullptr || std::ranges::any_of(group, wants_gradients);
  const std::vector<int64_t> ranks = gather_numbers(comm_, here ? 1 : 0);
  const bool back = std::ranges::max(ranks) > 0;
  load(back);
  const PhaseClock::Scope scope(clock_, "forward");
  const auto find = [&](int64_t sublayer) {
    const auto found = std::ranges::find(group, sublayer, &SublayerSums::sublayer);
    return found == group.end() ? nullptr : &*found;
  };
  const auto visit_features = [&](int64_t sublayer, int64_t mlp, const at::Tensor& h) {
    if (SublayerSums* sums = find(sublayer)) add_features(*sums, mlp, h);
  };
  const auto visit_gradient = [&](int64_t junction, const at::Tensor& g) {
    if (together) together->see_gradient(junction, g);
    SublayerSums* const sums = find(junction - 1);
    if (!sums || !sums->gradients) return;
    const PhaseClock::Scope adding(clock_, "gram", junction_name(junction));
    with_context("junction " + junction_name(junction), [&] { sums->gradients->add(g); });
  };
  const auto visit_state = [&](int64_t junction, const at::Tensor& x) {
    if (together) together->see_state(junction, x);
  };
  if (back) {
    const LossOfWindows loss{job_.windows, label_gradient(job_.config, head_, job_.window_numbers),
                             job_.shard(comm_).checkpoints};
    stream_gradients(comm_, job_.config, *stage_, loss, visit_state, visit_gradient,
                     observer_.tokens_seen, clock_, visit_features);
  } else {
    stream_through_stages(comm_, job_.config, *stage_, job_.windows, visit_state,
                          observer_.tokens_seen, visit_features);
  }
  stage_.reset();  // the work on the sums needs the memory
  head_ = {};
  if (together) together->after_pass();
}

/// Returns L of the junction that the sublayer writes.
at::Tensor SublayerCuts::metric_of(SublayerSums& sums) const {
  if (!gradients() || has_order(sums.sublayer)) return {};
  if (!sums.gradients) return of_allocation_->metric(sums.sublayer + 1);
  sums.gradients->mirror();
  const at::Tensor fisher = std::move(sums.gradients->gram);
  return metric_factor(fisher.div_(tokens()));
}

void SublayerCuts::for_each_out_proj(
    SublayerSums& sums,
    const std::function<void(at::Tensor, const at::Tensor&, const at::Tensor&)>& visit) const {
  const ScopedThreads threads(job_.map.decomposition_threads);
  const at::Tensor metric = metric_of(sums);
  for (const StoredTensor& stored : sublayer_tensors(job_.config, sums.sublayer)) {
    if (stored.role != TensorRole::kOutProjWeight) continue;
    Moments& features = sums.features.at(stored.index);
    features.mirror();
    at::Tensor gram = std::move(features.gram);
    gram.div_(tokens());
    const at::Tensor out_proj =
        to_device(load_rows(job_.reader, stored, 0, stored.shape.at(0), at::kDouble), job_.device);
    visit(std::move(gram), out_proj, metric);
  }
}

/// Returns the predicted loss increase at each of these widths, widest first, and the order.
std::map<std::string, at::Tensor> SublayerCuts::curve(SublayerSums& sums,
                                                      const std::vector<int64_t>& widths) const {
  std::vector<double> loss_increases(widths.size(), 0.0);
  std::vector<at::Tensor> orders;
  const auto add = [&](const std::vector<double>& of_steps) {
    for (size_t i = 0; i < widths.size(); ++i) {
      loss_increases[i] += of_steps.at(static_cast<size_t>(widths.front() - widths[i]));
    }
  };
  const bool attends = is_attention(sums.sublayer);
  for_each_out_proj(sums, [&](at::Tensor gram, const at::Tensor& W, const at::Tensor& metric) {
    if (attends) {
      add(value_removal_loss_increases(std::move(gram), W, metric, heads(), widths.back()));
      return;
    }
    const Removal removal = removal_of_features(std::move(gram), W, metric, widths.back());
    add(removal.loss_increases);
    orders.push_back(removal.order);
  });
  std::map<std::string, at::Tensor> found = {
      {kLossIncreases, at::tensor(loss_increases, at::kDouble)},
      {kWidths, at::tensor(widths, at::kLong)}};
  if (!attends) found[kOrder] = at::stack(orders);
  return found;
}

double SublayerCuts::loss_increase_in_curve(int64_t sublayer, int64_t width) const {
  const auto known = job_.first_round_journal().get(curve_entry(sublayer));
  return known.at(kLossIncreases).masked_select(known.at(kWidths) == width).item<double>();
}

std::map<std::string, at::Tensor> SublayerCuts::cut_features(
    SublayerSums& sums, int64_t width, std::vector<double>& loss_increases) const {
  std::vector<CutFeatures> cuts;
  std::map<std::string, at::Tensor> known;
  if (has_order(sums.sublayer)) {
    known = job_.first_round_journal().get(curve_entry(sums.sublayer));
    loss_increases.push_back(loss_increase_in_curve(sums.sublayer, width));
  }
  for_each_out_proj(sums, [&](at::Tensor gram, const at::Tensor& down, const at::Tensor& metric) {
    at::Tensor order;
    if (known.empty()) {
      const at::Tensor kept = gram.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
      const Removal removal = removal_of_features(std::move(gram), down, metric, width);
      loss_increases.push_back(removal.loss_increases.back());
      order = removal.order;
      gram = to_device(kept, job_.device);
    } else {
      order = known.at(kOrder)[std::ssize(cuts)];
    }
    cuts.push_back(features_left(order, std::move(gram), down, width));
  });
  return tensors_of_cut_mlp(job_, sums.sublayer, cuts);
}

std::map<std::string, at::Tensor> SublayerCuts::cut_values(
    SublayerSums& sums, int64_t width, std::vector<double>& loss_increases) const {
  CutValues cut;
  for_each_out_proj(sums, [&](at::Tensor gram, const at::Tensor& o, const at::Tensor& metric) {
    cut = remove_values(std::move(gram), o, metric, heads(), width);
    loss_increases.push_back(cut.predicted_loss_increase);
  });
  return tensors_of_cut_attention(job_, sums.sublayer, cut);
}

void SublayerCuts::cut(SublayerSums sums, int64_t width) {
  const std::string name = sublayer_name(sums.sublayer);
  const PhaseClock::Scope scope(clock_, "cut", name);
  std::vector<double> loss_increases;
  std::map<std::string, at::Tensor> tensors = with_context(name, [&] {
    if (width == 0) {
      loss_increases.push_back(loss_increase_in_curve(sums.sublayer, 0));
      return std::map<std::string, at::Tensor>{};
    }
    return is_attention(sums.sublayer) ? cut_values(sums, width, loss_increases)
                                       : cut_features(sums, width, loss_increases);
  });
  tensors[kLossIncrease] = at::tensor(loss_increases, at::kDouble);
  tensors[kTokens] = at::tensor(sums.tokens, at::kLong);
  writing_.put(cut_entry(sums.sublayer, width, job_.for_trial), std::move(tensors));
}

std::vector<SumBounds> SublayerCuts::bounds_of(const SublayerWeights& weights,
                                               const RotaryTable& rotary, const Microbatches& x) {
  const int64_t count = mlp_count(job_.config, weights.sublayer);
  at::Tensor norms = at::zeros({comm_.size(), count}, at::kDouble);
  at::Tensor mine = norms[comm_.rank()];
  const auto visit = [&](int64_t mlp, const at::Tensor& h) {
    const at::Tensor norm = at::linalg_vector_norm(h, 2, at::IntArrayRef{-1}, false, at::kDouble);
    mine[mlp] = std::max(mine[mlp].item<double>(), norm.max().item<double>());
  };
  for (const at::Tensor& batch : x) {
    sublayer_forward(job_.config, weights, rotary, batch, nullptr, visit);
  }
  comm_.all_reduce_sum(norms);  // exact: all summands but one are zero
  const at::Tensor largest = norms.amax(0);
  std::vector<SumBounds> bounds;
  for (int64_t mlp = 0; mlp < count; ++mlp) {
    bounds.push_back({job_.windows.numel(), largest[mlp].item<double>()});
  }
  return bounds;
}

SublayerSums SublayerCuts::sum_over_ranks(const SublayerWeights& weights, const RotaryTable& rotary,
                                          Microbatches& x) {
  SublayerSums sums = no_sums(weights.sublayer, bounds_of(weights, rotary, x));
  const auto visit = [&](int64_t mlp, const at::Tensor& h) { add_features(sums, mlp, h); };
  for (at::Tensor& batch : x) {
    batch = sublayer_forward(job_.config, weights, rotary, batch, nullptr, visit);
    observer_.tokens_seen(batch.size(0) * batch.size(1));
  }
  const int owner = owner_of(weights.sublayer);
  for (Moments& features : sums.features) comm_.reduce_sum(features.gram, owner);
  at::Tensor counts = at::tensor(sums.tokens, at::kDouble);
  comm_.all_reduce_sum(counts);
  for (size_t mlp = 0; mlp < sums.tokens.size(); ++mlp) {
    sums.tokens[mlp] = std::llround(counts[static_cast<int64_t>(mlp)].item<double>());
  }
  return sums;
}

/// All ranks see the same journal here, because no rank has written an MLP yet.
void SublayerCuts::run_shares(const ModelConfig& cut_model) {
  std::set<int64_t> left;
  for (int64_t s = 0; s < job_.config.num_sublayers(); ++s) {
    if (!is_cut(job_.config, cut_model, s)) continue;
    if (!job_.journal.has(cut_entry(s, inner_width(cut_model, s), job_.for_trial))) left.insert(s);
  }
  if (left.empty()) return;
  const RotaryTable rotary =
      to_device(make_rotary_table(job_.config, job_.windows.size(1)), job_.device);
  Microbatches x = embed_share(comm_, job_, job_.compute_dtype, clock_);
  SublayerStream sublayers(comm_, job_.reader, job_.config, job_.compute_dtype, job_.device);
  for (int64_t s = 0; s <= *left.rbegin(); ++s) {
    const PhaseClock::Scope scope(clock_, "forward");
    const SublayerWeights weights = sublayers.next();
    if (left.contains(s)) {
      SublayerSums sums = sum_over_ranks(weights, rotary, x);
      if (owner_of(s) == comm_.rank()) cut(std::move(sums), inner_width(cut_model, s));
      writing_.finish();
      continue;
    }
    for (at::Tensor& batch : x) {
      batch = sublayer_forward(job_.config, weights, rotary, batch);
      observer_.tokens_seen(batch.size(0) * batch.size(1));
    }
  }
}

void SublayerCuts::for_sums_of(const std::vector<int64_t>& sublayers, const DenseRound* together,
                               const std::function<void(SublayerSums)>& visit) {
  const auto at_once = [](const RankShard& shard) { return shard.cuts_at_once; };
  in_parts(comm_, job_.plan, sublayers, at_once, [&](std::span<const int64_t> part, int64_t) {
    std::vector<SublayerSums> group;
    for (const int64_t sublayer : part) group.push_back(no_sums(sublayer));
    sum(group, together);
    if (job_.packs_sums()) {  // the GPU has room for one at a time
      for (SublayerSums& sums : group) sums = on_host(sums);
    }
    for (SublayerSums& sums : group) visit(std::move(sums));
  });
}

void SublayerCuts::measure(const ResolvedJob& job, const DenseRound* together) {
  const auto wanted = [&](int64_t sublayer) { return may_be_cut(job, sublayer); };
  Journal& curves = job_.first_round_journal();
  for_sums_of(pending(curves, curve_entry, wanted), together, [&](SublayerSums sums) {
    if (of_allocation_ && job_.plan.keeps_sums()) {
      of_allocation_->kept.push_back(job_.packs_sums() ? sums : on_host(sums));
    }
    const std::string name = sublayer_name(sums.sublayer);
    const PhaseClock::Scope scope(clock_, "cut", name);
    const std::vector<int64_t> widths = possible_inner_widths(job_.config, job, sums.sublayer);
    curves.put(curve_entry(sums.sublayer), with_context(name, [&] { return curve(sums, widths); }));
  });
  comm_.barrier();  // every curve is in the journal
}

void SublayerCuts::run_stages(const ModelConfig& cut_model) {
  const auto wanted = [&](int64_t s) { return is_cut(job_.config, cut_model, s); };
  const auto entry = [&](int64_t s) {
    return cut_entry(s, inner_width(cut_model, s), job_.for_trial);
  };
  const auto cut_it = [&](SublayerSums sums) {
    const int64_t width = inner_width(cut_model, sums.sublayer);
    cut(std::move(sums), width);
  };
  if (of_allocation_) {
    for (const SublayerSums& sums : of_allocation_->kept) {
      const int64_t s = sums.sublayer;
      if (wanted(s) && !job_.journal.has(entry(s))) cut_it(on_device(sums));
    }
  }
  writing_.finish();
  for_sums_of(pending(job_.journal, entry, wanted), nullptr, cut_it);
  writing_.finish();
}

/// Returns the curves of the sublayers `first`, `first` + 2, ..., by layer.
std::vector<std::vector<double>> read_curves(const Journal& journal, const ModelConfig& config,
                                             int64_t first) {
  std::vector<std::vector<double>> curves;
  for (int64_t s = first; s < config.num_sublayers(); s += 2) {
    const at::Tensor loss_increases =
        journal.get(curve_entry(s)).at(kLossIncreases).to(at::kDouble).contiguous();
    const auto* data = loss_increases.const_data_ptr<double>();
    curves.emplace_back(data, data + loss_increases.numel());
  }
  return curves;
}

}  // namespace

CutCurves measure_cuts(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                       const CalibrationObserver& observer, PhaseClock& clock, AllocationSums& sums,
                       const DenseRound* together) {
  SublayerCuts(comm, dense, observer, clock, &sums).measure(job, together);
  CutCurves curves{read_curves(dense.first_round_journal(), dense.config, 1), {}};
  if (job.allocates_values())
    curves.values = read_curves(dense.first_round_journal(), dense.config, 0);
  return curves;
}

void cut_sublayers(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                   const ModelConfig& cut, const CalibrationObserver& observer, PhaseClock& clock,
                   AllocationSums* sums) {
  SublayerCuts cuts(comm, dense, observer, clock, sums);
  job.schedule.pipelined ? cuts.run_stages(cut) : cuts.run_shares(cut);
  comm.barrier();  // every cut sublayer is in the journal
}

std::vector<int64_t> sublayers_to_cut(const Communicator& comm, const CalibrationJob& dense,
                                      const ModelConfig& cut) {
  const RankShard& shard = dense.shard(comm);
  std::vector<int64_t> sublayers;
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
    if (!is_cut(dense.config, cut, s)) continue;
    const std::string entry = cut_entry(s, inner_width(cut, s), dense.for_trial);
    if (!dense.journal.has(entry)) sublayers.push_back(s);
  }
  return sublayers;
}

std::vector<std::filesystem::path> cut_files(const Journal& journal, const ModelConfig& dense,
                                             const ModelConfig& cut, bool for_trial) {
  std::vector<std::filesystem::path> files;
  for (int64_t s = 0; s < dense.num_sublayers(); ++s) {
    if (!is_cut(dense, cut, s)) continue;
    files.push_back(journal.tensors_file(cut_entry(s, inner_width(cut, s), for_trial)));
  }
  return files;
}

CutDiagnostics cut_diagnostics(const Journal& journal, const ModelConfig& cut, int64_t sublayer) {
  const auto tensors =
      journal.get(cut_entry(sublayer, inner_width(cut, sublayer), /*for_trial=*/false));
  return {tensors.at(kLossIncrease).sum().item<double>(),
          tensors.at(kTokens).eq(0).sum().item<int64_t>()};
}

}  // namespace dotresize
