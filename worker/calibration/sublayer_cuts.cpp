#include "worker/calibration/sublayer_cuts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "job/plan/steps/step.h"
#include "worker/calibration/reason.h"

namespace dotresize {
namespace {

/// Returns what is left of the sublayer; nothing if it is whole.
std::optional<Choice> choice_of(const ModelConfig& dense, const ModelConfig& cut,
                                int64_t sublayer) {
  const auto layer = static_cast<size_t>(layer_of(sublayer));
  const Unit* unit = cut_unit(dense.layers.at(layer), cut.layers.at(layer), sublayer);
  if (unit == nullptr) return std::nullopt;
  return Choice{unit, unit->size(cut.layers[layer])};
}

/// Name of a cut's entry. It includes the size, because a job may cut a sublayer to several sizes.
std::string cut_entry(int64_t sublayer, const Choice& choice, bool for_trial) {
  const UnitCut& cut = cut_of(*choice.unit);
  return (for_trial ? cut.trial_entry : cut.entry)(sublayer, choice.size);
}

/// Returns true if the sublayer is to be cut, and the journal does not have it yet.
bool lacks_cut(const CalibrationJob& dense, const ModelConfig& cut, int64_t sublayer,
               bool for_trial) {
  const std::optional<Choice> choice = choice_of(dense.config, cut, sublayer);
  return choice && !dense.journal.has(cut_entry(sublayer, *choice, for_trial));
}

/// Returns the rank's sublayers of which `wanted` is true.
template <class Wanted>
std::vector<int64_t> sublayers_of(const RankShard& shard, const Wanted& wanted) {
  std::vector<int64_t> sublayers;
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
    if (wanted(s)) sublayers.push_back(s);
  }
  return sublayers;
}

/// Cuts the sublayers of this rank's stage. Calls `cut_one` with the sums of each.
void cut_in_stages(SublayerPasses& passes, const std::vector<int64_t>& sublayers,
                   const CutSums& from, const std::function<void(SublayerSums)>& cut_one) {
  std::vector<SublayerSums> none;
  std::vector<SublayerSums>& kept = from.kept ? *from.kept : none;
  std::vector<int64_t> with_sums;
  std::vector<int64_t> others;
  for (const int64_t s : sublayers) {
    const bool known = std::ranges::find(kept, s, &SublayerSums::sublayer) != kept.end();
    (known ? with_sums : others).push_back(s);
  }
  const auto find = [&](int64_t sublayer) -> std::optional<SublayerSums> {
    const auto found = std::ranges::find(kept, sublayer, &SublayerSums::sublayer);
    if (found == kept.end()) return std::nullopt;
    const SublayerSums sums = std::move(*found);
    kept.erase(found);
    return sums.copied(/*to_host=*/false);
  };
  if (from.rounds_of_kept.empty()) {
    for (const SublayerSums& sums : kept) {
      if (std::ranges::find(with_sums, sums.sublayer) != with_sums.end()) {
        cut_one(sums.copied(/*to_host=*/false));
      }
    }
  } else {
    passes.in_stages(with_sums, from.rounds_of_kept, find, cut_one);
  }
  passes.in_stages(
      others, from.rounds, [](int64_t) { return std::nullopt; }, cut_one);
}

/// Writes a sum of gradients.
void put_gradients(const CalibrationJob& dense, Journal& curves, const std::string& entry,
                   Moments gradients) {
  gradients.mirror();
  curves.put(entry, {{kGradientSum, gradients.gram.to(gradients_dtype(dense)).cpu()}});
}

/// Sums the gradients behind this rank's sublayers, unless `curves` has those of every rank.
void keep_gradients(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                    SublayerPasses& passes, const EntryKind& kind, const TokenRound& round,
                    Journal& curves) {
  const std::vector<int64_t> pending = sublayers_of(
      dense.shard(comm), [&](int64_t s) { return may_be_cut(job, s) && !curves.has(kind(s)); });
  const std::vector<int64_t> missing = gather_numbers(comm, std::ssize(pending));
  if (std::ranges::max(missing) == 0) return;
  passes.gradients(pending, round, [&](int64_t sublayer, Moments gradients) {
    put_gradients(dense, curves, kind(sublayer), std::move(gradients));
  });
}

}  // namespace

std::vector<SublayerCurve> measure_curves(Communicator& comm, const CalibrationJob& dense,
                                          const ResolvedJob& job, Journal& curves,
                                          const AllocationWindows& windows,
                                          std::vector<SublayerSums>& kept,
                                          const CalibrationObserver& observer, PhaseClock& clock) {
  const CutSums from{.rounds = {},
                     .curves = &curves,
                     .gradients = {entries::kGradients},
                     .tokens = windows.fitted.windows.numel()};
  const SublayerCutter cutter(dense, from);
  SublayerPasses passes(comm, dense, observer, clock);
  if (windows.has_others()) {
    keep_gradients(comm, dense, job, passes, entries::kHeldOutGradients, windows.held_out, curves);
  }
  if (dense.plan.cut_groups > 1) {  // one pass back is enough
    keep_gradients(comm, dense, job, passes, entries::kGradients, windows.fitted, curves);
  }
  const auto lacks_gradients = [&](int64_t s) { return !curves.has(entries::kGradients(s)); };
  const std::vector<int64_t> pending = sublayers_of(dense.shard(comm), [&](int64_t s) {
    return may_be_cut(job, s) && (!curves.has(entries::kCurve(s)) || lacks_gradients(s));
  });
  TokenRound round = windows.fitted;
  round.gradients =
      std::ranges::max(gather_numbers(comm, std::ranges::count_if(pending, lacks_gradients))) > 0;
  const auto measure = [&](SublayerSums of) {
    const std::string name = sublayer_name(of.sublayer);
    const PhaseClock::Scope scope(clock, "cut", name);
    if (of.gradients && lacks_gradients(of.sublayer)) {
      put_gradients(dense, curves, entries::kGradients(of.sublayer), std::move(*of.gradients));
    }
    of.gradients.reset();
    if (dense.plan.ranks.front().keeps_sums) {
      kept.push_back(dense.halves_precision() ? of : of.copied(/*to_host=*/true));
    }
    const std::vector<Choice> possible = choices(dense.config, job, of.sublayer);
    curves.put(entries::kCurve(of.sublayer),
               with_context(name, [&] { return cutter.curve(of, possible); }));
    observer.operations_done(cut_operations(dense.config, job, of.sublayer).curve);
  };
  passes.in_stages(
      pending, {std::move(round)}, [](int64_t) { return std::nullopt; }, measure);
  comm.barrier();  // every curve is in the journal
  std::vector<SublayerCurve> found;
  for (int64_t s = 0; s < dense.config.num_sublayers(); ++s) {
    if (may_be_cut(job, s))
      found.push_back({s, kept_curve(curves, s, choices(dense.config, job, s))});
  }
  return found;
}

void cut_sublayers(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                   const ModelConfig& cut, const CutSums& from, const CalibrationObserver& observer,
                   PhaseClock& clock) {
  const SublayerCutter cutter(dense, from);
  SublayerPasses passes(comm, dense, observer, clock);
  BackgroundEntry writing(dense.journal);  // writes a cut while the next one is computed
  const auto cut_one = [&](SublayerSums of) {
    const std::string name = sublayer_name(of.sublayer);
    const Choice choice = choice_of(dense.config, cut, of.sublayer).value();
    const PhaseClock::Scope scope(clock, "cut", name);
    writing.put(cut_entry(of.sublayer, choice, from.for_trial),
                with_context(name, [&] { return cutter.cut(of, choice); }));
    const CutOperations operations = cut_operations(dense.config, job, of.sublayer);
    observer.operations_done(from.for_trial ? operations.trial : operations.output);
  };
  if (job.schedule.pipelined) {
    const auto lacks = [&](int64_t s) { return lacks_cut(dense, cut, s, from.for_trial); };
    cut_in_stages(passes, sublayers_of(dense.shard(comm), lacks), from, cut_one);
    writing.finish();
  } else {
    // All ranks see the same journal here, because no rank has written an MLP yet.
    std::set<int64_t> left;
    for (int64_t s = 0; s < dense.config.num_sublayers(); ++s) {
      if (lacks_cut(dense, cut, s, from.for_trial)) left.insert(s);
    }
    passes.over_ranks(left, [&](SublayerSums of) {
      cut_one(std::move(of));
      writing.finish();
    });
  }
  comm.barrier();  // every cut sublayer is in the journal
}

std::vector<std::filesystem::path> cut_files(const Journal& journal, const ModelConfig& dense,
                                             const ModelConfig& cut, bool for_trial) {
  std::vector<std::filesystem::path> files;
  for (int64_t s = 0; s < dense.num_sublayers(); ++s) {
    const std::optional<Choice> choice = choice_of(dense, cut, s);
    if (choice) files.push_back(journal.tensors_file(cut_entry(s, *choice, for_trial)));
  }
  return files;
}

CutDiagnostics cut_diagnostics(const Journal& journal, const ModelConfig& dense,
                               const ModelConfig& cut, int64_t sublayer) {
  const Choice choice = choice_of(dense, cut, sublayer).value();
  const auto tensors = journal.get(cut_entry(sublayer, choice, /*for_trial=*/false));
  const bool fitted = choice.unit != &kExperts;
  return {tensors.at(kLossIncrease).sum().item<double>(),
          fitted ? tensors.at(kSeenTokens).eq(0).sum().item<int64_t>() : 0};
}

}  // namespace dotresize
