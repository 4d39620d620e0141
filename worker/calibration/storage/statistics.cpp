#include "worker/calibration/storage/statistics.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/text/printable.h"
#include "job/plan/allocate/inner_widths.h"
#include "worker/calibration/junction_groups.h"
#include "worker/calibration/shared_maps.h"
#include "worker/maps/map_algorithm.h"

namespace dotresize {
namespace {

/// Returns the shape of a stored tensor of this name, for d channels.
std::vector<int64_t> shape_of(const std::string& name, int64_t d) {
  if (name == "precision") return {3};
  if (name == "values" || name == "abs_sum") return {d};
  return {d, d};
}

/// Takes the passes of a group of junctions with maps of their own, and writes their entries.
void keep_group(const CalibrationJob& job, PipelinePasses& passes, JunctionGroup& group) {
  passes.first(group);
  for (StageJunction& junction : group.junctions) {
    job.journal.put(first_entry(junction.setup.junction), junction.first->tensors());
  }
  if (job.map.basis == Basis::kIdentity) return;
  for (StageJunction& junction : group.junctions) {
    junction.decomposed.emplace(std::move(*junction.first).finish(job.windows.numel()));
    junction.first.reset();
    job.journal.put(basis_entry(junction.setup.junction), junction.decomposed->tensors());
  }
  if (!needs_second_pass(job.map)) return;
  for (StageJunction& junction : group.junctions) {
    junction.rotation = junction.decomposed->rotation();
    junction.decomposed.reset();
  }
  passes.second(group);
  for (StageJunction& junction : group.junctions) {
    job.journal.put(second_entry(junction.setup.junction), junction.second->costs().tensors());
  }
}

}  // namespace

std::string first_entry(int64_t junction) { return fmt::format("first-{}", junction); }
std::string basis_entry(int64_t junction) { return fmt::format("basis-{}", junction); }
std::string rotation_entry(int64_t map) { return fmt::format("rotation-{}", map); }
std::string second_entry(int64_t junction) { return fmt::format("second-{}", junction); }

std::string curve_entry(int64_t sublayer) { return fmt::format("curve-{}", sublayer); }
std::string dense_entry(int64_t junction) { return fmt::format("dense-{}", junction); }
std::string loss_increases_entry(int64_t junction) { return fmt::format("rises-{}", junction); }

std::vector<std::string> first_round_entries(const ModelConfig& config, const ResolvedJob& job) {
  std::vector<std::string> names;
  for (int64_t sublayer = 0; sublayer < config.num_sublayers(); ++sublayer) {
    if (may_be_cut(job, sublayer)) names.push_back(curve_entry(sublayer));
  }
  for (int64_t junction = 0; junction < job.widths.mapped_count; ++junction) {
    names.push_back(dense_entry(junction));
    names.push_back(loss_increases_entry(junction));
  }
  if (job.widths.mapped_count > 0 && !job.maps.groups.empty()) names.push_back(kSharedBasis);
  return names;
}

std::vector<std::string> StatisticsKind::entries(int64_t junctions) const {
  const bool shared = second_pass() && !groups.empty();
  std::vector<std::string> names;
  for (int64_t junction = 0; junction < junctions; ++junction) {
    names.push_back(first_entry(junction));
    if (pca && !shared) names.push_back(basis_entry(junction));
    if (shared && first_with_same_map(groups, junction) == junction) {
      names.push_back(rotation_entry(junction));
    }
    if (second_pass()) names.push_back(second_entry(junction));
  }
  return names;
}

void take_statistics(Communicator& comm, const CalibrationJob& job,
                     const CalibrationObserver& observer, PhaseClock& clock) {
  PipelinePasses passes(comm, job, observer, clock);
  if (needs_second_pass(job.map) && !job.sharing.empty()) {
    return take_shared_sums(comm, job, passes, clock);
  }
  const bool pca = job.map.basis == Basis::kPca;
  std::vector<int64_t> pending;
  for (const int64_t junction : junctions_of(job, job.shard(comm))) {
    const bool whole = job.journal.has(first_entry(junction)) &&
                       (!pca || job.journal.has(basis_entry(junction))) &&
                       (!needs_second_pass(job.map) || job.journal.has(second_entry(junction)));
    if (!whole) pending.push_back(junction);
  }
  in_groups(comm, job, pending, clock,
            [&](JunctionGroup& group) { keep_group(job, passes, group); });
  comm.barrier();  // all entries are in the journal
}

NamedTensors kept_sums(const CalibrationJob& job, const std::string& entry,
                       std::initializer_list<const char*> required) {
  if (job.statistics == nullptr) return job.journal.get(entry);
  NamedTensors tensors = job.statistics->get(entry);
  for (const char* name : required) {
    if (!tensors.contains(name)) {
      throw InputError(fmt::format("the statistics of {} have no tensor {}", entry, name));
    }
  }
  for (const auto& [name, tensor] : tensors) {
    const std::vector<int64_t> shape = shape_of(name, job.config.hidden_size);
    if (tensor.scalar_type() == at::kDouble && tensor.sizes() == at::IntArrayRef(shape)) continue;
    throw InputError(fmt::format("the statistics of {}: tensor {} is not float64 of shape [{}]",
                                 entry, printable(name), fmt::join(shape, ", ")));
  }
  return tensors;
}

DecomposedJunction kept_decomposition(const CalibrationJob& job, const JunctionSetup& setup) {
  const PhaseClock::Scope scope(setup.clock, "read");
  const int64_t tokens = job.windows.numel();
  if (job.statistics->has(basis_entry(setup.junction))) {
    return {setup, tokens, kept_sums(job, basis_entry(setup.junction), {"values", "vectors"})};
  }
  return FirstPass(setup, kept_sums(job, first_entry(setup.junction), {"gram"})).finish(tokens);
}

SecondPass kept_second_pass(const CalibrationJob& job, const JunctionSetup& setup) {
  const PhaseClock::Scope scope(setup.clock, "read");
  return SecondPass(setup, CostSums(setup, kept_sums(job, second_entry(setup.junction),
                                                     {"precision", "abs_sum", "cost"})));
}

}  // namespace dotresize
