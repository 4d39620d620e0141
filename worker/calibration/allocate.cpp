#include "worker/calibration/allocate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "worker/calibration/storage/statistics.h"
#include "worker/calibration/sublayer_cuts.h"

namespace dotresize {
namespace {

using Json = nlohmann::json;

/// Largest predicted loss of an allocation with maps, relative to the one without maps. Maps have
/// to be worth their passes, and a model that needs code of its own.
constexpr double kMapsMustLose = 0.9;

Json to_json(const Allocation& chosen) {
  return {{"widths", chosen.widths.all},
          {"features", chosen.features},
          {"values", chosen.values},
          {"shortcut_ranks", chosen.shortcut_ranks},
          {"junction_rises", chosen.junction_loss_increases},
          {"mlp_rises", chosen.mlp_loss_increases},
          {"value_rises", chosen.value_loss_increases},
          {"shortcut_rises", chosen.shortcut_loss_increases}};
}

Allocation from_json(const Json& object, const ResolvedJob& job) {
  Allocation chosen;
  chosen.widths = job.widths;
  object.at("widths").get_to(chosen.widths.all);
  chosen.widths = decided(std::move(chosen.widths), job.model.hidden_size);
  object.at("features").get_to(chosen.features);
  object.at("values").get_to(chosen.values);
  object.at("shortcut_ranks").get_to(chosen.shortcut_ranks);
  object.at("junction_rises").get_to(chosen.junction_loss_increases);
  object.at("mlp_rises").get_to(chosen.mlp_loss_increases);
  object.at("value_rises").get_to(chosen.value_loss_increases);
  object.at("shortcut_rises").get_to(chosen.shortcut_loss_increases);
  return chosen;
}

void scale(std::vector<std::vector<double>>& loss_increases, double factor) {
  for (std::vector<double>& of_one : loss_increases) {
    for (double& loss_increase : of_one) loss_increase *= factor;
  }
}

double sum(const std::vector<double>& loss_increases) {
  return std::accumulate(loss_increases.begin(), loss_increases.end(), 0.0);
}

}  // namespace

AllocationChoice::AllocationChoice(Communicator& comm, const CalibrationJob& dense,
                                   at::Tensor all_windows, std::vector<int64_t> held_out,
                                   const ResolvedJob& job, const CalibrationObserver& observer,
                                   PhaseClock& clock, CutTrial trial)
    : comm_(comm),
      dense_(dense),
      all_windows_(std::move(all_windows)),
      held_out_(std::move(held_out)),
      job_(job),
      observer_(observer),
      clock_(clock),
      trial_(std::move(trial)),
      junctions_(comm, dense, job, observer, clock),
      sums_{[this](int64_t junction) { return junctions_.has_metric(junction); },
            [this](int64_t junction) { return junctions_.metric(junction); },
            {}} {
  const bool has_chosen = dense_.journal.has(entries::kAllocation);
  const auto is_kept = [&](const std::string& name) { return dense_.first_round->has(name); };
  const bool lacks_statistics =
      dense_.first_round && !std::ranges::all_of(first_round_entries(dense_.config, job_), is_kept);
  if (!has_chosen || lacks_statistics) measure();
  if (has_chosen) {
    const Json kept = dense_.journal.value(entries::kAllocation);
    chosen_.best = from_json(kept.at("best"), job_);
    if (kept.contains("without_maps")) {
      chosen_.without_maps = from_json(kept.at("without_maps"), job_);
    }
    kept.at("corrected").get_to(chosen_.corrected);
    return;
  }
  const PhaseClock::Scope scope(clock_, "solve");
  chosen_.best = allocate_jointly(dense_.config, job_, *loss_increases_);
  const bool maps_win = chosen_.best.widths.mapped_count > 0 &&
                        (!chosen_.without_maps ||
                         chosen_.best.predicted_loss_increase() <
                             kMapsMustLose * chosen_.without_maps->predicted_loss_increase());
  if (!maps_win) {
    if (chosen_.without_maps) chosen_.best = *chosen_.without_maps;
    chosen_.without_maps.reset();
  }
  keep();
}

void AllocationChoice::measure() {
  std::optional<DenseRound> together;
  if (dense_.plan.dense_round()) {
    together = junctions_.dense_round();
  } else {
    junctions_.keep_junctions();
  }
  CutCurves curves =
      measure_cuts(comm_, dense_, job_, observer_, clock_, sums_, together ? &*together : nullptr);
  if (together) together->after_pass();  // no-op after a pass
  PredictedLossIncreases loss_increases;
  loss_increases.mlps = std::move(curves.mlps);
  loss_increases.values = std::move(curves.values);
  // The trial of the best allocation without maps gives the ratio of measured to predicted loss. It
  // serves for all parts of the model: any part that is fitted to few tokens loses more on others.
  double factor = 1.0;
  if (const std::optional<Allocation> found =
          allocate_without_maps(dense_.config, job_, loss_increases)) {
    CalibrationJob job = dense_;
    job.for_trial = true;
    const ModelConfig cut = cut_as(*found, job);
    if (!dense_.journal.has(entries::kTrial)) {
      const double kl = trial_(cut);
      if (comm_.rank() == 0) dense_.journal.put_value(entries::kTrial, {{"kl", kl}});
      comm_.barrier();
    }
    const double kl = dense_.journal.value(entries::kTrial).at("kl").get<double>();
    const double predicted = found->predicted_loss_increase();
    if (kl > 0.0 && predicted > 0.0) factor = kl / predicted;
  }
  junctions_.measure(loss_increases);
  for (auto* const of_parts : {&loss_increases.junctions, &loss_increases.mlps,
                               &loss_increases.values, &loss_increases.shortcuts}) {
    scale(*of_parts, factor);
  }
  chosen_.without_maps = allocate_without_maps(dense_.config, job_, loss_increases);
  loss_increases_ = std::move(loss_increases);
}

ModelConfig AllocationChoice::cut_as(const Allocation& allocation, const CalibrationJob& job) {
  ModelConfig cut = with_features(dense_.config, job_, allocation);
  cut_sublayers(comm_, job, with_allocation(job_, dense_.config, allocation), cut, observer_,
                clock_, &sums_);
  return cut;
}

ModelConfig AllocationChoice::cut() {
  CalibrationJob job = dense_;
  if (chosen_.best.widths.mapped_count == 0) {
    job.windows = all_windows_;
    job.window_numbers.clear();
    job.refits = true;
    sums_.kept.clear();
    const bool has_others = all_windows_.size(0) > dense_.windows.size(0);
    if (dense_.map.metric == Metric::kFisher && has_others) {
      // The gradients of the held-out windows belong to the metrics too.
      const ModelConfig cut = with_features(dense_.config, job_, chosen_.best);
      std::vector<int64_t> junctions = sublayers_to_cut(comm_, dense_, cut);
      for (int64_t& sublayer : junctions) ++sublayer;  // the junction that the sublayer writes
      const at::Tensor windows = all_windows_.index_select(0, at::tensor(held_out_, at::kLong));
      junctions_.extend_metrics(windows, held_out_, junctions);
    }
  }
  ModelConfig cut = cut_as(chosen_.best, job);
  sums_.kept.clear();
  if (!chosen_.without_maps) junctions_.forget();  // otherwise it may be cut again
  return cut;
}

std::optional<double> AllocationChoice::seen_in_trial() const {
  if (chosen_.best.widths.mapped_count > 0) return std::nullopt;
  return dense_.journal.value(entries::kTrial).at("kl").get<double>();
}

void AllocationChoice::keep() {
  if (comm_.rank() == 0) {
    Json kept = {{"best", to_json(chosen_.best)}, {"corrected", chosen_.corrected}};
    if (chosen_.without_maps) kept["without_maps"] = to_json(*chosen_.without_maps);
    dense_.journal.put_value(entries::kAllocation, kept);
  }
  comm_.barrier();
}

bool AllocationChoice::correct(double measured) {
  if (chosen_.corrected || chosen_.best.widths.mapped_count == 0) return false;
  chosen_.corrected = true;
  const Allocation& best = chosen_.best;
  if (chosen_.without_maps) {
    if (measured <= chosen_.without_maps->predicted_loss_increase()) return false;
    chosen_.best = *std::exchange(chosen_.without_maps, std::nullopt);
  } else {
    const double of_cuts = sum(best.mlp_loss_increases) + sum(best.value_loss_increases);
    const double of_maps = sum(best.junction_loss_increases) + sum(best.shortcut_loss_increases);
    if (measured <= kMostOverPredicted * best.predicted_loss_increase() || !(of_maps > 0.0))
      return false;
    if (!loss_increases_) measure();
    scale(loss_increases_->junctions, (measured - of_cuts) / of_maps);
    scale(loss_increases_->shortcuts, (measured - of_cuts) / of_maps);
    chosen_.best = allocate_jointly(dense_.config, job_, *loss_increases_);
  }
  // The entries of maps depend on the chosen widths.
  const std::set<std::string> all = dense_.journal.entries();
  for (const std::string& entry : all) {
    for (const EntryKind& kind :
         {entries::kMap, entries::kJunction, entries::kShared, entries::kFirst, entries::kSecond,
          entries::kRotation, entries::kShortcut}) {
      if (entry.starts_with(std::string(kind.name) + "-")) dense_.journal.remove(entry);
    }
  }
  comm_.barrier();
  keep();
  return true;
}

}  // namespace dotresize
