#include "worker/calibration/storage/statistics.h"

#include <ATen/ATen.h>

#include <utility>

#include "worker/calibration/junction_groups.h"
#include "worker/calibration/shared_map.h"

namespace dotresize {

std::vector<std::string> curve_entries(const ModelConfig& config, const ResolvedJob& job) {
  std::vector<std::string> names;
  for (int64_t sublayer = 0; sublayer < config.num_sublayers(); ++sublayer) {
    if (!may_be_cut(job, sublayer)) continue;
    names.push_back(entries::kCurve(sublayer));
    names.push_back(entries::kGradients(sublayer));
    if (expected_samples(job) > 1) names.push_back(entries::kHeldOutGradients(sublayer));
  }
  return names;
}

std::vector<std::string> junction_entries(const ModelConfig& config, const ResolvedJob& job,
                                          bool shared_basis) {
  const bool second_pass = job.method.sums().second.any();
  std::vector<std::string> names;
  for (int64_t junction = 0; junction < config.num_junctions(); ++junction) {
    names.push_back(entries::kFirst(junction));
    if (job.method.pca() && !shared_basis) names.push_back(entries::kBasis(junction));
    if (second_pass) names.push_back(entries::kSecond(junction));
  }
  if (second_pass && shared_basis) names.push_back(entries::kRotation(kSharedMap));
  return names;
}

void take_statistics(Communicator& comm, const CalibrationJob& job,
                     const CalibrationObserver& observer, PhaseClock& clock) {
  PipelinePasses passes(comm, job, observer, clock);
  const bool two_passes = job.map.sums().second.any();
  if (two_passes && job.shared_map) return take_shared_sums(comm, job, passes, clock);
  const bool pca = job.map.basis == Basis::kPca;
  Journal& journal = job.journal;
  std::vector<int64_t> pending;
  for (const int64_t junction : junctions_of(job, job.shard(comm))) {
    const bool whole = journal.has(entries::kFirst(junction)) &&
                       (!pca || journal.has(entries::kBasis(junction))) &&
                       (!two_passes || journal.has(entries::kSecond(junction)));
    if (!whole) pending.push_back(junction);
  }
  passes.in_groups(pending, [&](JunctionGroup& group) {
    passes.first(group);
    for (StageJunction& junction : group.junctions) {
      journal.put(entries::kFirst(junction.setup.junction), junction.first->tensors());
    }
    if (!pca) return;
    for (StageJunction& junction : group.junctions) {
      junction.decomposed.emplace(std::move(*junction.first).finish(job.windows.numel()));
      junction.first.reset();
      journal.put(entries::kBasis(junction.setup.junction), junction.decomposed->tensors());
    }
    if (!two_passes) return;
    for (StageJunction& junction : group.junctions) {
      junction.rotation = junction.decomposed->rotation();
      junction.decomposed.reset();
    }
    passes.second(group);
    for (StageJunction& junction : group.junctions) {
      journal.put(entries::kSecond(junction.setup.junction), junction.second->tensors());
    }
  });
  comm.barrier();  // all entries are in the journal
}

}  // namespace dotresize
