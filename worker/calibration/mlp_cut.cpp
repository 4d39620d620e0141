#include "worker/calibration/mlp_cut.h"

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
#include "job/plan/mlp_widths.h"
#include "job/plan/mlps_by_loss.h"
#include "worker/calibration/junction_groups.h"
#include "worker/calibration/reason.h"
#include "worker/calibration/token_parallel_moments.h"
#include "worker/maps/feature_removal.h"
#include "worker/maps/metric.h"
#include "worker/maps/moments.h"
#include "worker/maps/spectrum.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/gradient_stream.h"
#include "worker/transformer/load.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/sublayer_loader.h"

namespace dotresize {
namespace {

constexpr char kRise[] = "predicted_rise";  // [MLPs] float64
constexpr char kTokens[] = "tokens";        // [MLPs] int64
constexpr char kRises[] = "rises";          // [possible widths] float64, of all experts together

std::string mlp_entry(int64_t sublayer) { return fmt::format("mlp-{}", sublayer); }
std::string curve_entry(int64_t sublayer) { return fmt::format("curve-{}", sublayer); }

/// Over all tokens, of one sublayer.
struct MlpSums {
  int64_t sublayer = 0;
  std::vector<Moments> features;     ///< of the MLP, or of each expert
  std::vector<int64_t> tokens;       ///< that each has met
  std::optional<Moments> gradients;  ///< behind the sublayer, in the metric of the loss
};

bool is_cut(const ModelConfig& dense, const ModelConfig& cut, int64_t sublayer) {
  return mlp_width(cut, sublayer) < mlp_width(dense, sublayer);
}

class MlpCuts {
 public:
  MlpCuts(Communicator& comm, const CalibrationJob& job, const CalibrationObserver& observer,
          PhaseClock& clock)
      : comm_(comm), job_(job), observer_(observer), clock_(clock) {}

  /// The curves of all MLPs, into the journal.
  void measure(const MlpTarget& target);
  // To the widths that `cut_model` says.
  void run_stages(const ModelConfig& cut_model);
  void run_shares(const ModelConfig& cut_model);

 private:
  bool gradients() const { return job_.map.metric == Metric::kFisher; }
  /// This rank's MLPs, of which the journal has no entry of that name.
  std::vector<int64_t> pending(std::string (*entry)(int64_t)) const;
  /// Sums the features of these MLPs of this rank, of as many at a time as there is memory for, and
  /// hands each over. Collective.
  void for_sums_of(const std::vector<int64_t>& sublayers,
                   const std::function<void(MlpSums)>& visit);
  void load();
  /// `bounds`: of each MLP's sums, if ranks add them up.
  MlpSums no_sums(int64_t sublayer, const std::vector<SumBounds>& bounds = {}) const;
  /// Of the features of all ranks' tokens.
  std::vector<SumBounds> bounds_of(const SublayerWeights& weights, const RotaryTable& rotary,
                                   const Microbatches& x);
  /// The rank that cuts an MLP whose tokens are shared.
  int owner_of(int64_t sublayer) const { return rank_in_turn(comm_, layer_of(sublayer)); }
  /// At the owner those of all ranks; x becomes what the sublayer returns.
  MlpSums sum_over_ranks(const SublayerWeights& weights, const RotaryTable& rotary,
                         Microbatches& x);
  void add_features(MlpSums& sums, int64_t mlp, const at::Tensor& h) const;
  void sum(std::vector<MlpSums>& group);
  void cut(MlpSums sums, int64_t width);
  at::Tensor metric_of(MlpSums& sums) const;
  /// Calls visit(E[hᵀh], down, L) of the MLP, or of each expert; the sums are given away.
  void for_each_mlp(
      MlpSums& sums,
      const std::function<void(at::Tensor, const at::Tensor&, const at::Tensor&)>& visit) const;
  std::vector<double> curve(MlpSums& sums, const std::vector<int64_t>& widths) const;
  std::map<std::string, at::Tensor> changed_tensors(int64_t sublayer,
                                                    const std::vector<CutFeatures>& cuts) const;
  double tokens() const { return static_cast<double>(job_.windows.numel()); }

  Communicator& comm_;
  const CalibrationJob& job_;
  const CalibrationObserver& observer_;
  PhaseClock& clock_;
  std::optional<Stage> stage_;
  HeadWeights head_;  ///< on the last rank, if gradients()
};

std::vector<int64_t> MlpCuts::pending(std::string (*entry)(int64_t)) const {
  const RankShard& shard = job_.shard(comm_);
  std::vector<int64_t> sublayers;
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
    if (!is_attention(s) && !job_.journal.has(entry(s))) sublayers.push_back(s);
  }
  return sublayers;
}

void MlpCuts::load() {
  if (stage_) return;
  const PhaseClock::Scope scope(clock_, "read");
  // What autograd keeps for the way back must not be made in inference mode.
  std::optional<c10::InferenceMode> with_autograd;
  if (gradients()) with_autograd.emplace(false);
  const RankShard& shard = job_.shard(comm_);
  stage_ = load_stage(job_.reader, job_.config, shard, shard.end_sublayer, job_.compute_dtype,
                      job_.device);
  if (gradients() && comm_.rank() == comm_.size() - 1) {
    head_ = to_device(load_head(job_.reader, job_.config, job_.compute_dtype), job_.device);
  }
}

MlpSums MlpCuts::no_sums(int64_t sublayer, const std::vector<SumBounds>& bounds) const {
  MlpSums sums{.sublayer = sublayer, .features = {}, .tokens = {}, .gradients = {}};
  const int64_t count = mlp_count(job_.config, sublayer);
  // What is made in inference mode could not be added to on the way back.
  std::optional<c10::InferenceMode> with_autograd;
  if (gradients()) with_autograd.emplace(false);
  for (int64_t mlp = 0; mlp < count; ++mlp) {
    MomentOptions options{.what = "features of the MLP"};
    if (!bounds.empty()) options.reproducible = bounds.at(static_cast<size_t>(mlp));
    sums.features.emplace_back(mlp_width(job_.config, sublayer), MomentKinds{.gram = true},
                               job_.device, options);
  }
  sums.tokens.resize(static_cast<size_t>(count), 0);
  if (gradients()) {
    sums.gradients.emplace(job_.config.hidden_size, MomentKinds{.gram = true}, job_.device,
                           MomentOptions{.what = "gradients of the loss"});
  }
  return sums;
}

void MlpCuts::add_features(MlpSums& sums, int64_t mlp, const at::Tensor& h) const {
  const PhaseClock::Scope scope(clock_, "gram", sublayer_name(sums.sublayer));
  with_context(sublayer_name(sums.sublayer),
               [&] { sums.features.at(static_cast<size_t>(mlp)).add(h.to(at::kFloat)); });
  sums.tokens.at(static_cast<size_t>(mlp)) += h.numel() / h.size(-1);
}

void MlpCuts::sum(std::vector<MlpSums>& group) {
  load();
  const PhaseClock::Scope scope(clock_, "forward");
  const auto find = [&](int64_t sublayer) {
    const auto found = std::ranges::find(group, sublayer, &MlpSums::sublayer);
    return found == group.end() ? nullptr : &*found;
  };
  const auto visit_features = [&](int64_t sublayer, int64_t mlp, const at::Tensor& h) {
    if (MlpSums* sums = find(sublayer)) add_features(*sums, mlp, h);
  };
  const auto visit_gradient = [&](int64_t junction, const at::Tensor& g) {
    MlpSums* const sums = find(junction - 1);
    if (!sums) return;
    const PhaseClock::Scope adding(clock_, "gram", junction_name(junction));
    with_context("junction " + junction_name(junction), [&] { sums->gradients->add(g); });
  };
  const auto pass_by = [](int64_t, const at::Tensor&) {};
  if (gradients()) {
    stream_gradients(comm_, job_.config, *stage_, {job_.windows, head_, job_.labels}, pass_by,
                     visit_gradient, observer_.tokens_seen, clock_, visit_features);
  } else {
    stream_through_stages(comm_, job_.config, *stage_, job_.windows, pass_by, observer_.tokens_seen,
                          visit_features);
  }
}

/// L of the junction behind; undefined: the identity.
at::Tensor MlpCuts::metric_of(MlpSums& sums) const {
  if (!sums.gradients) return {};
  sums.gradients->mirror();
  const at::Tensor fisher = std::move(sums.gradients->gram);
  return metric_factor(fisher.div_(tokens()));
}

void MlpCuts::for_each_mlp(
    MlpSums& sums,
    const std::function<void(at::Tensor, const at::Tensor&, const at::Tensor&)>& visit) const {
  const DecompositionThreads threads(job_.map.decomposition_threads);
  const at::Tensor metric = metric_of(sums);
  for (const StoredTensor& stored : sublayer_tensors(job_.config, sums.sublayer)) {
    if (stored.role != TensorRole::kOutProjWeight) continue;
    Moments& features = sums.features.at(stored.index);
    features.mirror();
    at::Tensor gram = std::move(features.gram);
    gram.div_(tokens());
    const at::Tensor down =
        to_device(load_rows(job_.reader, stored, 0, stored.shape.at(0), at::kDouble), job_.device);
    visit(std::move(gram), down, metric);
  }
}

/// The predicted rise at each of these widths, all features first.
std::vector<double> MlpCuts::curve(MlpSums& sums, const std::vector<int64_t>& widths) const {
  std::vector<double> rises(widths.size(), 0.0);
  for_each_mlp(sums, [&](at::Tensor gram, const at::Tensor& down, const at::Tensor& metric) {
    const std::vector<double> of_mlp = removal_rises(std::move(gram), down, metric, widths.back());
    for (size_t i = 0; i < widths.size(); ++i) {
      rises[i] += of_mlp.at(static_cast<size_t>(widths.front() - widths[i]));
    }
  });
  return rises;
}

std::map<std::string, at::Tensor> MlpCuts::changed_tensors(
    int64_t sublayer, const std::vector<CutFeatures>& cuts) const {
  const bool mixture = job_.config.is_mixture(sublayer);
  std::map<std::string, at::Tensor> tensors;
  for (const StoredTensor& stored : sublayer_tensors(job_.config, sublayer)) {
    if (stored.role == TensorRole::kOutProjWeight) {
      tensors[stored.name] = cuts.at(stored.index).weight.to(job_.fold_dtype).cpu();
      continue;
    }
    const bool in_proj =
        stored.role == TensorRole::kInProjWeight || stored.role == TensorRole::kInProjBias;
    const bool router = mixture && stored.index == 0;
    if (!in_proj || router) continue;
    // Of a mixture gate and up of each expert follow the router.
    at::Tensor rows = cuts.at(mixture ? (stored.index - 1) / 2 : 0).kept;
    if (job_.config.fused_in_proj) {
      rows = at::cat({rows, rows + mlp_width(job_.config, sublayer)});
    }
    tensors[stored.name] = job_.reader.get(stored.name, stored.shape).index_select(0, rows);
  }
  return tensors;
}

void MlpCuts::cut(MlpSums sums, int64_t width) {
  const PhaseClock::Scope scope(clock_, "cut", sublayer_name(sums.sublayer));
  std::vector<CutFeatures> cuts;
  const auto cut_one = [&](at::Tensor gram, const at::Tensor& down, const at::Tensor& metric) {
    cuts.push_back(remove_features(std::move(gram), down, metric, width));
  };
  with_context(sublayer_name(sums.sublayer), [&] { for_each_mlp(sums, cut_one); });
  std::vector<double> rises(cuts.size());
  std::ranges::transform(cuts, rises.begin(), &CutFeatures::predicted_rise);
  std::map<std::string, at::Tensor> tensors = changed_tensors(sums.sublayer, cuts);
  tensors[kRise] = at::tensor(rises, at::kDouble);
  tensors[kTokens] = at::tensor(sums.tokens, at::kLong);
  job_.journal.put(mlp_entry(sums.sublayer), tensors);
}

std::vector<SumBounds> MlpCuts::bounds_of(const SublayerWeights& weights, const RotaryTable& rotary,
                                          const Microbatches& x) {
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

MlpSums MlpCuts::sum_over_ranks(const SublayerWeights& weights, const RotaryTable& rotary,
                                Microbatches& x) {
  MlpSums sums = no_sums(weights.sublayer, bounds_of(weights, rotary, x));
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

/// All ranks see the same journal here: nobody has written an MLP yet.
void MlpCuts::run_shares(const ModelConfig& cut_model) {
  std::set<int64_t> left;
  for (int64_t s = 0; s < job_.config.num_sublayers(); ++s) {
    if (is_cut(job_.config, cut_model, s) && !job_.journal.has(mlp_entry(s))) left.insert(s);
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
      MlpSums sums = sum_over_ranks(weights, rotary, x);
      if (owner_of(s) == comm_.rank()) cut(std::move(sums), mlp_width(cut_model, s));
      continue;
    }
    for (at::Tensor& batch : x) {
      batch = sublayer_forward(job_.config, weights, rotary, batch);
      observer_.tokens_seen(batch.size(0) * batch.size(1));
    }
  }
}

void MlpCuts::for_sums_of(const std::vector<int64_t>& sublayers,
                          const std::function<void(MlpSums)>& visit) {
  const auto at_once = [](const RankShard& shard) { return shard.mlps_at_once; };
  in_parts(comm_, job_.plan, sublayers, at_once, [&](std::span<const int64_t> part, int64_t) {
    std::vector<MlpSums> group;
    for (const int64_t sublayer : part) group.push_back(no_sums(sublayer));
    sum(group);
    for (MlpSums& sums : group) visit(std::move(sums));
  });
}

void MlpCuts::measure(const MlpTarget& target) {
  for_sums_of(pending(curve_entry), [&](MlpSums sums) {
    const std::string name = sublayer_name(sums.sublayer);
    const PhaseClock::Scope scope(clock_, "cut", name);
    const std::vector<int64_t> widths = possible_mlp_widths(job_.config, target, sums.sublayer);
    const std::vector<double> rises = with_context(name, [&] { return curve(sums, widths); });
    job_.journal.put(curve_entry(sums.sublayer), {{kRises, at::tensor(rises, at::kDouble)}});
  });
  comm_.barrier();  // every curve is in the journal
}

void MlpCuts::run_stages(const ModelConfig& cut_model) {
  std::vector<int64_t> sublayers = pending(mlp_entry);
  std::erase_if(sublayers, [&](int64_t s) { return !is_cut(job_.config, cut_model, s); });
  for_sums_of(sublayers, [&](MlpSums sums) {
    const int64_t width = mlp_width(cut_model, sums.sublayer);
    cut(std::move(sums), width);
  });
}

/// The curves of all MLPs, by layer.
std::vector<std::vector<double>> read_curves(const Journal& journal, const ModelConfig& config) {
  std::vector<std::vector<double>> curves;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    const at::Tensor rises =
        journal.get(curve_entry(2 * layer + 1)).at(kRises).to(at::kDouble).contiguous();
    const auto* data = rises.const_data_ptr<double>();
    curves.emplace_back(data, data + rises.numel());
  }
  return curves;
}

}  // namespace

std::vector<std::vector<double>> measure_mlps(Communicator& comm, const CalibrationJob& dense,
                                              const MlpTarget& target,
                                              const CalibrationObserver& observer,
                                              PhaseClock& clock) {
  MlpCuts(comm, dense, observer, clock).measure(target);
  return read_curves(dense.journal, dense.config);
}

ModelConfig cut_mlps_by_loss(Communicator& comm, const CalibrationJob& dense,
                             const ResolvedJob& job, const CalibrationObserver& observer,
                             PhaseClock& clock) {
  MlpCuts cuts(comm, dense, observer, clock);  // whose stage is loaded once
  cuts.measure(job.mlp.value());
  ModelConfig cut = with_mlps_by_loss(dense.config, job, read_curves(dense.journal, dense.config));
  cuts.run_stages(cut);
  comm.barrier();  // every MLP is in the journal
  return cut;
}

void cut_mlps(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
              const ModelConfig& cut, const CalibrationObserver& observer, PhaseClock& clock) {
  MlpCuts cuts(comm, dense, observer, clock);
  job.schedule.pipelined ? cuts.run_stages(cut) : cuts.run_shares(cut);
  comm.barrier();  // every MLP is in the journal
}

std::vector<std::filesystem::path> cut_mlp_files(const Journal& journal, const ModelConfig& dense,
                                                 const ModelConfig& cut) {
  std::vector<std::filesystem::path> files;
  for (int64_t s = 0; s < dense.num_sublayers(); ++s) {
    if (is_cut(dense, cut, s)) files.push_back(journal.tensors_file(mlp_entry(s)));
  }
  return files;
}

MlpDiagnostics mlp_diagnostics(const Journal& journal, int64_t sublayer) {
  const std::map<std::string, at::Tensor> tensors = journal.get(mlp_entry(sublayer));
  return {tensors.at(kRise).sum().item<double>(), tensors.at(kTokens).eq(0).sum().item<int64_t>()};
}

}  // namespace dotresize
