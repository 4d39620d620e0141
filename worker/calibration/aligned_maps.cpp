#include "worker/calibration/aligned_maps.h"

#include <ATen/ATen.h>
#include <fmt/core.h>

#include <map>
#include <string>
#include <utility>

#include "worker/maps/spectrum.h"
#include "worker/transformer/weights.h"

namespace dotresize {
namespace {

std::string entry(int64_t sublayer) { return fmt::format("shortcut-{}", sublayer); }

bool is_mapped(const CalibrationJob& job, int64_t junction) {
  return junction < job.mapped_junctions();
}

/// Of two maps in any floating dtype, with the job's number of threads.
Alignment align_maps(const CalibrationJob& job, const at::Tensor& M_in, const at::Tensor& M_out,
                     int64_t rank, PhaseClock& clock) {
  const PhaseClock::Scope scope(clock, "align");
  const DecompositionThreads threads(job.map.decomposition_threads);
  Alignment found = align(M_in.to(at::kDouble), M_out.to(at::kDouble), rank);
  if (rank == 0) found.A = at::Tensor();
  return found;
}

}  // namespace

void write_alignment(const CalibrationJob& job, int64_t sublayer, const ShortcutForm& form,
                     const JunctionMap& in, const JunctionMap& out, PhaseClock& clock) {
  const bool narrower = in.M.size(1) > out.M.size(1);
  if (form.dense() || narrower || job.journal.has(entry(sublayer))) return;
  const Alignment found = align_maps(job, in.M, out.M, *form.rank, clock);
  std::map<std::string, at::Tensor> tensors = {{"turn", found.turn.to(job.fold_dtype)}};
  if (found.A.defined()) tensors["A"] = found.A.to(job.fold_dtype);
  job.journal.put(entry(sublayer), tensors);
}

void write_alignments(Communicator& comm, const CalibrationJob& job, const JunctionWidths& widths,
                      PhaseClock& clock) {
  const std::vector<ShortcutForm> forms = job.shortcut_forms(widths);
  const RankShard& shard = job.plan.ranks.at(static_cast<size_t>(comm.rank()));
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
    const ShortcutForm& form = forms[static_cast<size_t>(s)];
    if (form.dense() || !is_mapped(job, s + 1) || job.shares_map(s)) continue;
    write_alignment(job, s, form, job.load_map(s), job.load_map(s + 1), clock);
  }
  comm.barrier();
}

at::Tensor AlignedMaps::rotated() const {
  at::Tensor M = job_.load_map(junction_).M;
  if (!R_.defined()) return M;
  const DecompositionThreads threads(job_.map.decomposition_threads);
  return at::mm(M.to(at::kDouble), R_);
}

JunctionMap AlignedMaps::map() const {
  if (!is_mapped(job_, junction_)) return whole_;
  const PhaseClock::Scope scope(clock_, "align");
  return JunctionMap(rotated().to(job_.fold_dtype));
}

/// R and A behind the sublayer.
void AlignedMaps::turn(int64_t sublayer) {
  const auto in = static_cast<size_t>(sublayer);
  if (widths_.all.at(in) > widths_.all.at(in + 1)) {
    const int64_t rank = *forms_[static_cast<size_t>(sublayer)].rank;
    Alignment found = align_maps(job_, rotated(), job_.load_map(sublayer + 1).M, rank, clock_);
    R_ = std::move(found.turn);
    if (rank > 0) A_ = found.A.to(job_.fold_dtype);
    return;
  }
  const auto found = job_.journal.get(entry(sublayer));
  const at::Tensor Q = to_device(found.at("turn").to(at::kDouble), job_.device);
  if (found.contains("A")) {
    const at::Tensor A = to_device(found.at("A").to(at::kDouble), job_.device);
    A_ = (R_.defined() ? at::mm(R_.t(), A) : A).to(job_.fold_dtype);
  }
  if (!R_.defined()) {
    R_ = Q;
    return;
  }
  const int64_t before = R_.size(1);
  const at::Tensor turned = at::mm(Q.narrow(1, 0, before), R_);
  R_ = at::cat({turned, Q.narrow(1, before, Q.size(1) - before)}, 1);
}

void AlignedMaps::next() {
  const int64_t sublayer = junction_;
  const PhaseClock::Scope scope(clock_, "align");
  const DecompositionThreads threads(job_.map.decomposition_threads);
  A_.reset();
  if (job_.shares_map(sublayer)) {
    // the same map, rotated alike
  } else if (forms_[static_cast<size_t>(sublayer)].dense()) {
    R_.reset();
  } else if (!is_mapped(job_, sublayer + 1)) {
    whole_ = JunctionMap(complete_basis(rotated().to(at::kDouble)).to(job_.fold_dtype));
  } else {
    turn(sublayer);
  }
  ++junction_;
}

}  // namespace dotresize
