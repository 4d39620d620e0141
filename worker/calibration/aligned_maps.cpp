#include "worker/calibration/aligned_maps.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/core.h>

#include <future>
#include <map>
#include <string>
#include <utility>

#include "worker/maps/describe/spectrum.h"
#include "worker/maps/scoped_threads.h"
#include "worker/transformer/stage/stream_guard.h"
#include "worker/transformer/weights.h"

namespace dotresize {
namespace {

std::string entry(int64_t sublayer) { return fmt::format("shortcut-{}", sublayer); }

bool is_mapped(const CalibrationJob& job, int64_t junction) {
  return junction < job.mapped_junctions();
}

/// Aligns two maps of any floating dtype, with the job's number of threads. A and B of the result
/// are undefined if `rank` is 0.
Alignment align_maps(const CalibrationJob& job, const JunctionMap& in, const JunctionMap& out,
                     int64_t rank, PhaseClock& clock) {
  const PhaseClock::Scope scope(clock, "align");
  const ScopedThreads threads(job.map.decomposition_threads);
  const at::Tensor M_out = out.M.to(at::kDouble);
  Alignment found = in.oblique ? align_oblique(in.to(at::kDouble), M_out, rank, job.map.svd_driver)
                               : align(in.M.to(at::kDouble), M_out, rank, job.map.svd_driver);
  if (rank == 0) found.A = found.B = at::Tensor();
  return found;
}

}  // namespace

void MapRotation::turn(const Alignment& alignment) {
  const at::Tensor& Q = alignment.turn;
  if (!R.defined()) {
    R = Q;
    A = alignment.A;
    B = alignment.B;
    return;
  }
  A = alignment.A.defined() ? at::mm(R.t(), alignment.A) : at::Tensor();
  const int64_t before = R.size(1);
  const auto turned = [&](const at::Tensor& columns) {  // the first columns
    return at::cat({at::mm(columns.narrow(1, 0, before), R),
                    columns.narrow(1, before, columns.size(1) - before)},
                   1);
  };
  B = alignment.B.defined() ? turned(alignment.B) : at::Tensor();
  R = turned(Q);
}

at::Tensor MapRotation::of(const at::Tensor& M) const {
  return R.defined() ? at::mm(M.to(at::kDouble), R) : M;
}

JunctionMap MapRotation::of(const JunctionMap& map) const {
  if (!map.oblique) return JunctionMap(of(map.M));
  if (!R.defined()) return map;
  return {of(map.M), at::mm(R.t(), map.M_inv.to(at::kDouble))};
}

AlignedMaps::AlignedMaps(Communicator& comm, const CalibrationJob& job, PhaseClock& clock,
                         bool stock, const at::Tensor& tied_norm)
    : job_(job), clock_(clock), forms_(job.shortcut_forms()), orthonormal_(tied_norm.defined()) {
  write_alignments(job.shard(comm));
  comm.barrier();
  if (!stock) return;
  const PhaseClock::Scope scope(clock, "align");
  const ScopedThreads threads(job.map.decomposition_threads);
  rotation_.R = stock_rotation(tied_norm);
}

/// Returns the rotation of the shared map of a stock output. Quantizers work best if large weights
/// are spread over all channels. With tied embeddings the final norm determines the rotation.
at::Tensor AlignedMaps::stock_rotation(const at::Tensor& tied_norm) const {
  if (tied_norm.defined()) return norm_rotation(tied_norm, job_.load_map(0).M);
  return to_device(spreading_rotation(job_.widths.all.at(0)), job_.device);
}

JunctionMap AlignedMaps::rotated() const {
  const JunctionMap map = job_.load_map(junction_);
  return rotation_.of(orthonormal_ ? JunctionMap(map.M) : map);
}

bool AlignedMaps::is_narrower(int64_t sublayer) const {
  const auto in = static_cast<size_t>(sublayer);
  return job_.widths.all.at(in) > job_.widths.all.at(in + 1);
}

std::vector<int64_t> AlignedMaps::missing_alignments(const RankShard& shard) const {
  std::vector<int64_t> missing;
  for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
    const bool needed = !form(s).dense() && is_mapped(job_, s + 1) && !job_.shares_map(s);
    if (needed && !is_narrower(s) && !job_.journal.has(entry(s))) missing.push_back(s);
  }
  return missing;
}

void AlignedMaps::write_alignments(const RankShard& shard) {
  const KeptStream writing(job_.device);
  std::future<void> written;  // one is written while the next one is computed
  for (const int64_t s : missing_alignments(shard)) {
    const Alignment found =
        align_maps(job_, job_.load_map(s), job_.load_map(s + 1), *form(s).rank, clock_);
    std::map<std::string, at::Tensor> tensors = {{"turn", found.turn.to(job_.fold_dtype)}};
    if (found.A.defined()) tensors["A"] = found.A.to(job_.fold_dtype);
    if (found.B.defined()) tensors["B"] = found.B.to(job_.fold_dtype);
    if (written.valid()) written.get();
    written = std::async(std::launch::async, [this, &writing, s, tensors = std::move(tensors),
                                              computed = RecordedEvent(job_.device)] {
      const c10::InferenceMode no_autograd;
      const StreamGuard stream(writing, computed);
      job_.journal.put(entry(s), tensors);
    });
    if (!shard.overlaps) written.wait();
  }
  if (written.valid()) written.get();
}

JunctionMap AlignedMaps::map() const {
  if (!is_mapped(job_, junction_)) return whole_;
  const PhaseClock::Scope scope(clock_, "align");
  const ScopedThreads threads(job_.map.decomposition_threads);
  return rotated().to(job_.fold_dtype);
}

/// Moves across a sublayer whose shortcut has factors (not a dense matrix) to a mapped junction.
void AlignedMaps::turn(int64_t sublayer) {
  if (is_narrower(sublayer)) {
    Alignment found =
        align_maps(job_, rotated(), job_.load_map(sublayer + 1), *form(sublayer).rank, clock_);
    rotation_ = {std::move(found.turn), std::move(found.A), std::move(found.B)};
    return;
  }
  const auto kept = job_.journal.get(entry(sublayer));
  const auto tensor = [&](const char* name) {
    return kept.contains(name) ? to_device(kept.at(name).to(at::kDouble), job_.device)
                               : at::Tensor();
  };
  rotation_.turn({tensor("turn"), tensor("A"), tensor("B")});
}

/// Moves to a last junction of full width. Behind an oblique map its shortcut needs factors.
void AlignedMaps::turn_to_whole(int64_t sublayer) {
  const JunctionMap before = rotated();
  whole_ = JunctionMap(complete_basis(before.M.to(at::kDouble)).to(job_.fold_dtype));
  if (!before.oblique || *form(sublayer).rank == 0) return;
  Alignment found = align_oblique_to_whole(before.to(at::kDouble), whole_.M.to(at::kDouble),
                                           *form(sublayer).rank, job_.map.svd_driver);
  rotation_.A = std::move(found.A);
  rotation_.B = std::move(found.B);
}

void AlignedMaps::next() {
  const int64_t sublayer = junction_;
  const PhaseClock::Scope scope(clock_, "align");
  const ScopedThreads threads(job_.map.decomposition_threads);
  rotation_.A.reset();
  rotation_.B.reset();
  if (job_.shares_map(sublayer)) {
    // The map is the same, and so is its rotation.
  } else if (form(sublayer).dense()) {
    rotation_.R.reset();
  } else if (!is_mapped(job_, sublayer + 1)) {
    turn_to_whole(sublayer);
  } else {
    turn(sublayer);
  }
  ++junction_;
}

}  // namespace dotresize
