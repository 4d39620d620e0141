#include "worker/calibration/junction_loss_increases.h"

#include <ATen/ATen.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/plan/allocate/junction_widths.h"
#include "job/plan/allocate/shortcut_forms.h"
#include "job/plan/block_sizes.h"
#include "worker/calibration/junction_groups.h"
#include "worker/calibration/reason.h"
#include "worker/maps/describe/predicted_loss_increase.h"
#include "worker/maps/metric.h"
#include "worker/maps/scoped_threads.h"
#include "worker/transformer/weights.h"

namespace dotresize {
namespace {

/// Returns the symmetric matrix with this upper triangle.
at::Tensor symmetric(const at::Tensor& matrix) {
  const at::Tensor upper = matrix.triu();
  return upper + upper.triu(1).t();
}

std::vector<double> numbers(const at::Tensor& tensor) {
  const at::Tensor kept = tensor.contiguous();
  const auto* data = kept.const_data_ptr<double>();
  return {data, data + kept.numel()};
}

}  // namespace

JunctionLossIncreases::JunctionLossIncreases(Communicator& comm, const CalibrationJob& dense,
                                             const ResolvedJob& job,
                                             const CalibrationObserver& observer, PhaseClock& clock)
    : comm_(comm),
      dense_(dense),
      job_(job),
      observer_(observer),
      widths_(possible_widths(job.model.hidden_size, job.target.allocation->round_to)),
      kept_(dense.first_round_journal()),
      clock_(clock),
      passes_(comm, dense, observer, clock),
      mine_(junctions_of(dense, dense.shard(comm))),
      has_first_(!mine_.empty() && mine_.front() == 0),
      shared_(dense.shared_map) {}

bool JunctionLossIncreases::lacks_loss_increases(int64_t junction) const {
  return junction < dense_.widths.mapped_count && !kept_.has(entries::kLossIncreases(junction));
}

bool JunctionLossIncreases::lacks_ranks(int64_t junction) const {
  return !shared_ && junction > 0 && junction < dense_.widths.mapped_count &&
         !dense_.journal.has(entries::kRankLossIncreases(junction - 1));
}

std::vector<int64_t> JunctionLossIncreases::pending() const {
  const auto is_incomplete = [&](int64_t j) { return lacks_loss_increases(j) || lacks_ranks(j); };
  bool any_lacks = false;
  for (int64_t j = 0; j < dense_.widths.mapped_count; ++j)
    any_lacks = any_lacks || is_incomplete(j);
  std::vector<int64_t> pending;
  for (const int64_t junction : mine_) {
    const bool needed =
        shared_ ? any_lacks : is_incomplete(junction) || is_incomplete(junction + 1);
    if (needed && !kept_.has(entries::kDense(junction))) pending.push_back(junction);
  }
  return pending;
}

DenseRound JunctionLossIncreases::dense_round() {
  for (const int64_t junction : pending())
    beside_.junctions.push_back({setup_of(dense_, junction, clock_)});
  return {[this](int64_t junction, const at::Tensor& x) {
            if (StageJunction* found = beside_.find(junction)) add_first(dense_, *found, x);
          },
          [this](int64_t junction, const at::Tensor& g) {
            if (StageJunction* found = beside_.find(junction)) found->first->add_gradient(g);
          },
          [this] {
            keep(beside_);
            beside_.junctions.clear();
          }};
}

/// Writes the basis of each junction with a map of its own; with a shared map, its sums.
void JunctionLossIncreases::keep(JunctionGroup& group) {
  BackgroundEntry entry(kept_);  // writes while the next one is decomposed
  for (StageJunction& junction : group.junctions) {
    if (!junction.first) continue;  // no tokens were seen
    std::map<std::string, at::Tensor> kept = junction.first->tensors();
    if (!shared_) {
      kept = std::move(*junction.first).finish(dense_.windows.numel()).tensors();
      kept.erase("gram");
    }
    junction.first.reset();
    for (auto& [name, tensor] : kept) {
      // Matrices summed in float32 are stored in float32.
      const bool matrix = dense_.halves_precision() && tensor.dim() == 2;
      tensor = tensor.to(matrix ? at::kFloat : tensor.scalar_type()).cpu();
    }
    entry.put(entries::kDense(junction.setup.junction), std::move(kept));
  }
  entry.finish();
}

void JunctionLossIncreases::keep_junctions() {
  passes_.in_groups(pending(), [&](JunctionGroup& group) {
    passes_.first(group);
    passes_.unload();  // the decomposition needs the memory
    keep(group);
  });
}

std::map<std::string, at::Tensor> JunctionLossIncreases::load(const std::string& entry) const {
  std::map<std::string, at::Tensor> tensors = kept_.get(entry);
  for (auto& [name, tensor] : tensors) tensor = to_device(tensor, dense_.device).to(at::kDouble);
  return tensors;
}

MetricBasis JunctionLossIncreases::basis(int64_t junction) const {
  const auto tensors = load(shared_ ? entries::kSharedBasis : entries::kDense(junction));
  return {tensors.at("values"), tensors.at("vectors"), tensors.at("factor")};
}

at::Tensor JunctionLossIncreases::mean(const std::string& entry, const char* name) const {
  return symmetric(load(entry).at(name)) / static_cast<double>(dense_.windows.numel());
}

/// The sample is spread evenly over the windows.
at::Tensor JunctionLossIncreases::sampled_windows() const {
  const int64_t windows = dense_.windows.size(0);
  const int64_t taken = sampled_loss_increase_windows(windows, dense_.windows.size(1));
  return dense_.windows.index_select(0,
                                     (at::arange(taken, at::kLong) * windows).div_(taken, "floor"));
}

/// Takes the sums over tokens of the second round.
void JunctionLossIncreases::keep_token_loss_increases() {
  std::vector<int64_t> pending;
  for (const int64_t junction : mine_) {
    const bool lacks = !kept_.has(entries::kTokenLossIncreases(junction));
    if (lacks_loss_increases(junction) && lacks) pending.push_back(junction);
  }
  const auto at_once = [](const RankShard& shard) { return shard.bases_at_once; };
  const at::Tensor windows = sampled_windows();
  passes_.in_parts(pending, at_once, [&](std::span<const int64_t> part, int64_t) {
    std::map<int64_t, TokenLossIncreases> sums;
    for (const int64_t junction : part) sums.try_emplace(junction, basis(junction), widths_);
    passes_.pairs(part, windows, [&](int64_t junction, const at::Tensor& x, const at::Tensor& g) {
      const PhaseClock::Scope scope(clock_, "gram", junction_name(junction));
      sums.at(junction).add(x, g);
    });
    for (const int64_t junction : part) {
      kept_.put(entries::kTokenLossIncreases(junction), {{"sums", sums.at(junction).sums.cpu()}});
    }
  });
}

at::Tensor JunctionLossIncreases::loss_increases_of(int64_t junction) const {
  const std::string entry = entries::kDense(junction);
  at::Tensor gram;
  at::Tensor fisher;
  // The prediction from the sums of the whole stream, as if no earlier junction had removed
  // anything, is compared with that of the tokens by themselves.
  at::Tensor all;
  if (shared_) {
    gram = mean(entry, "gram");
    fisher = mean(entry, "fisher");
    all = loss_increases_of_shared(basis(junction), gram, {}, fisher, widths_);
  } else {
    all = loss_increases_of_first(basis(junction), widths_);
  }
  const at::Tensor of_tokens = load(entries::kTokenLossIncreases(junction)).at("sums");
  const at::Tensor ratio =
      at::where(all > 0.0, of_tokens / (all * static_cast<double>(sampled_windows().numel())), 1.0);
  if (shared_) {
    const at::Tensor before =
        junction == 0 ? at::Tensor() : mean(entries::kDense(junction - 1), "gram");
    return loss_increases_of_shared(basis(junction), gram, before, fisher, widths_).diag_embed() *
           ratio;
  }
  const int64_t grid = std::ssize(widths_);
  if (junction == 0) return (all * ratio).expand({grid, grid});
  return loss_increases_behind(basis(junction - 1), basis(junction), widths_) * ratio;
}

void JunctionLossIncreases::write_ranks(const PredictedLossIncreases& loss_increases) {
  const Allocation chosen = allocate_jointly(dense_.config, job_, loss_increases);
  const std::vector<int64_t> ranks = possible_shortcut_ranks(job_.model.hidden_size);
  const ScopedThreads threads(dense_.map.decomposition_threads);
  // Junction and map that the next shortcut starts from.
  std::optional<std::pair<int64_t, JunctionMap>> last;
  for (const int64_t junction : mine_) {
    if (!lacks_ranks(junction)) continue;
    const PhaseClock::Scope scope(clock_, "align", junction_name(junction));
    const auto width = [&](int64_t of) { return chosen.widths.all.at(static_cast<size_t>(of)); };
    const at::Tensor found = with_context("junction " + junction_name(junction), [&] {
      const MetricBasis before = basis(junction - 1);
      const JunctionMap in = last && last->first == junction - 1
                                 ? std::move(last->second)
                                 : map_of(before, width(junction - 1));
      MetricBasis behind = basis(junction);
      last.emplace(junction, map_of(behind, width(junction)));
      behind.vectors.reset();  // room for the rotation
      return loss_increases_of_ranks(before, in, behind, last->second, ranks,
                                     dense_.map.svd_driver);
    });
    dense_.journal.put(entries::kRankLossIncreases(junction - 1), {{"rises", found.cpu()}});
  }
}

void JunctionLossIncreases::forget() {
  const auto forget = [](Journal& journal, const std::string& entry) {
    if (journal.has(entry)) journal.remove(entry);
  };
  for (const int64_t j : mine_) forget(dense_.journal, entries::kMetricExtension(j));
  if (dense_.first_round) return;
  for (const int64_t j : mine_) forget(kept_, entries::kDense(j));
  if (has_first_) forget(kept_, entries::kSharedBasis);
}

void JunctionLossIncreases::measure(PredictedLossIncreases& loss_increases) {
  keep_junctions();
  comm_.barrier();
  if (shared_) {
    const bool lacks = kept_.has(entries::kDense(0)) && !kept_.has(entries::kSharedBasis);
    if (has_first_ && lacks) {
      const int64_t tokens = dense_.windows.numel();
      FirstPass sum(setup_of(dense_, 0, clock_), CostPrecision{});
      for (int64_t junction = 0; junction < dense_.widths.mapped_count; ++junction) {
        sum.add_scaled({setup_of(dense_, junction, clock_), kept_.get(entries::kDense(junction))},
                       tokens);
      }
      std::map<std::string, at::Tensor> kept = std::move(sum).finish(tokens).tensors();
      kept.erase("gram");
      kept_.put(entries::kSharedBasis, kept);
    }
    comm_.barrier();
  }
  keep_token_loss_increases();
  passes_.unload();
  {
    const ScopedThreads threads(dense_.map.decomposition_threads);
    for (const int64_t junction : mine_) {
      if (!lacks_loss_increases(junction)) continue;
      const PhaseClock::Scope scope(clock_, "solve", junction_name(junction));
      const at::Tensor found = with_context("junction " + junction_name(junction),
                                            [&] { return loss_increases_of(junction); });
      kept_.put(entries::kLossIncreases(junction), {{"rises", found.cpu().contiguous()}});
    }
  }
  comm_.barrier();
  for (int64_t junction = 0; junction < dense_.widths.mapped_count; ++junction) {
    loss_increases.junctions.push_back(
        numbers(kept_.get(entries::kLossIncreases(junction)).at("rises")));
  }
  if (shared_) return;
  write_ranks(loss_increases);
  comm_.barrier();
  // A last junction of full width has no basis, so the shortcut into it has no prediction.
  loss_increases.shortcuts.resize(static_cast<size_t>(dense_.config.num_sublayers()));
  for (int64_t s = 0; s + 1 < dense_.widths.mapped_count; ++s) {
    loss_increases.shortcuts.at(static_cast<size_t>(s)) =
        numbers(dense_.journal.get(entries::kRankLossIncreases(s)).at("rises"));
  }
}

bool JunctionLossIncreases::has_metric(int64_t junction) {
  return junction < dense_.widths.mapped_count &&
         (kept_.has(entries::kDense(junction)) || beside_.find(junction) != nullptr);
}

at::Tensor JunctionLossIncreases::metric(int64_t junction) const {
  const std::string entry = entries::kDense(junction);
  const std::string extension = entries::kMetricExtension(junction);
  const bool extended = dense_.journal.has(extension);
  if (!shared_ && !extended) return load(entry).at("factor");
  at::Tensor fisher = shared_ ? mean(entry, "fisher") : fisher_of(load(entry).at("factor"));
  if (extended) {
    const auto more = dense_.journal.get(extension);
    const auto tokens = static_cast<double>(dense_.windows.numel());
    const double added = more.at("tokens").item<double>();
    fisher.mul_(tokens).add_(to_device(more.at("fisher"), dense_.device).to(at::kDouble));
    fisher.div_(tokens + added);
  }
  return metric_factor(fisher);
}

void JunctionLossIncreases::extend_metrics(const at::Tensor& windows,
                                           const std::vector<int64_t>& numbers,
                                           const std::vector<int64_t>& junctions) {
  std::vector<int64_t> pending;
  for (const int64_t junction : junctions) {
    if (has_metric(junction) && !dense_.journal.has(entries::kMetricExtension(junction))) {
      pending.push_back(junction);
    }
  }
  CalibrationJob job = dense_;
  job.windows = windows;
  job.window_numbers = numbers;
  PipelinePasses passes(comm_, job, observer_, clock_);
  passes.in_groups(pending, [&](JunctionGroup& group) {
    passes.first(group);
    passes.unload();
    for (StageJunction& junction : group.junctions) {
      at::Tensor fisher = symmetric(junction.first->tensors().at("fisher"));
      if (dense_.halves_precision()) fisher = fisher.to(at::kFloat);
      dense_.journal.put(
          entries::kMetricExtension(junction.setup.junction),
          {{"fisher", fisher.cpu()},
           {"tokens", at::scalar_tensor(static_cast<double>(windows.numel()), at::kDouble)}});
    }
  });
}

}  // namespace dotresize
