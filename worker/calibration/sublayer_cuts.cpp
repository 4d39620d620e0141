#include "worker/calibration/sublayer_cuts.h"

#include <ATen/ATen.h>

#include <set>
#include <string>
#include <utility>

#include "worker/calibration/reason.h"

namespace dotresize {
namespace {

/// Name of a cut's entry. It includes the width, because a job may cut a sublayer to several
/// widths.
std::string cut_entry(int64_t sublayer, int64_t width, bool for_trial) {
  if (is_attention(sublayer)) {
    return (for_trial ? entries::kTrialValues : entries::kValues)(sublayer, width);
  }
  return (for_trial ? entries::kTrialMlp : entries::kMlp)(sublayer, width);
}

bool is_cut(const ModelConfig& dense, const ModelConfig& cut, int64_t sublayer) {
  return inner_width(cut, sublayer) < inner_width(dense, sublayer);
}

/// Returns true if the sublayer is to be cut, and the journal does not have it yet.
bool lacks_cut(const CalibrationJob& dense, const ModelConfig& cut, int64_t sublayer) {
  return is_cut(dense.config, cut, sublayer) &&
         !dense.journal.has(cut_entry(sublayer, inner_width(cut, sublayer), dense.for_trial));
}

/// Returns the curves of the sublayers `first`, `first` + 2, ..., by layer.
std::vector<std::vector<double>> read_curves(const Journal& journal, const ModelConfig& config,
                                             int64_t first) {
  std::vector<std::vector<double>> curves;
  for (int64_t s = first; s < config.num_sublayers(); s += 2) {
    const at::Tensor loss_increases =
        journal.get(entries::kCurve(s)).at(kLossIncreases).to(at::kDouble).contiguous();
    const auto* data = loss_increases.const_data_ptr<double>();
    curves.emplace_back(data, data + loss_increases.numel());
  }
  return curves;
}

}  // namespace

CutCurves measure_cuts(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                       const CalibrationObserver& observer, PhaseClock& clock, AllocationSums& sums,
                       const DenseRound* together) {
  const SublayerCutter cutter(dense, &sums);
  SublayerPasses passes(comm, dense, observer, clock,
                        [&](int64_t sublayer) { return cutter.needs_gradients(sublayer); });
  Journal& journal = dense.first_round_journal();
  const RankShard& shard = dense.shard(comm);
  std::vector<int64_t> pending;
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
    if (may_be_cut(job, s) && !journal.has(entries::kCurve(s))) pending.push_back(s);
  }
  passes.in_stages(pending, together, [&](SublayerSums of) {
    if (dense.plan.ranks.front().keeps_sums) {
      sums.kept.push_back(dense.halves_precision() ? of : of.copied(/*to_host=*/true));
    }
    const std::string name = sublayer_name(of.sublayer);
    const PhaseClock::Scope scope(clock, "cut", name);
    const std::vector<int64_t> widths = possible_inner_widths(dense.config, job, of.sublayer);
    journal.put(entries::kCurve(of.sublayer),
                with_context(name, [&] { return cutter.curve(of, widths); }));
  });
  comm.barrier();  // every curve is in the journal
  CutCurves curves{read_curves(journal, dense.config, 1), {}};
  if (job.allocates_values()) curves.values = read_curves(journal, dense.config, 0);
  return curves;
}

void cut_sublayers(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                   const ModelConfig& cut, const CalibrationObserver& observer, PhaseClock& clock,
                   AllocationSums* sums) {
  const SublayerCutter cutter(dense, sums);
  SublayerPasses passes(comm, dense, observer, clock,
                        [&](int64_t sublayer) { return cutter.needs_gradients(sublayer); });
  BackgroundEntry writing(dense.journal);  // writes a cut while the next one is computed
  const auto cut_one = [&](SublayerSums of) {
    const std::string name = sublayer_name(of.sublayer);
    const int64_t width = inner_width(cut, of.sublayer);
    const PhaseClock::Scope scope(clock, "cut", name);
    writing.put(cut_entry(of.sublayer, width, dense.for_trial),
                with_context(name, [&] { return cutter.cut(of, width); }));
  };
  if (job.schedule.pipelined) {
    for (size_t i = 0; sums && i < sums->kept.size(); ++i) {
      if (!lacks_cut(dense, cut, sums->kept[i].sublayer)) continue;
      cut_one(sums->kept[i].copied(/*to_host=*/false));
    }
    writing.finish();
    passes.in_stages(sublayers_to_cut(comm, dense, cut), nullptr, cut_one);
    writing.finish();
  } else {
    // All ranks see the same journal here, because no rank has written an MLP yet.
    std::set<int64_t> left;
    for (int64_t s = 0; s < dense.config.num_sublayers(); ++s) {
      if (lacks_cut(dense, cut, s)) left.insert(s);
    }
    passes.over_ranks(left, [&](SublayerSums of) {
      cut_one(std::move(of));
      writing.finish();
    });
  }
  comm.barrier();  // every cut sublayer is in the journal
}

std::vector<int64_t> sublayers_to_cut(const Communicator& comm, const CalibrationJob& dense,
                                      const ModelConfig& cut) {
  const RankShard& shard = dense.shard(comm);
  std::vector<int64_t> sublayers;
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
    if (lacks_cut(dense, cut, s)) sublayers.push_back(s);
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
          tensors.at(kSeenTokens).eq(0).sum().item<int64_t>()};
}

}  // namespace dotresize
