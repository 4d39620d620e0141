#include "worker/calibration/aligned_maps.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <future>
#include <map>
#include <string>
#include <utility>

#include "job/plan/allocate/junction_widths.h"
#include "worker/maps/scoped_threads.h"
#include "worker/transformer/stage/stream_guard.h"
#include "worker/transformer/weights.h"

namespace dotresize {
namespace {

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
  B = alignment.B.defined() ? at::mm(alignment.B, R) : at::Tensor();
  R = at::mm(Q, R);
}

AlignedMaps::AlignedMaps(Communicator& comm, const CalibrationJob& job, PhaseClock& clock,
                         const at::Tensor& tied_norm)
    : job_(job), clock_(clock), orthonormal_(tied_norm.defined()) {
  if (!job.shared_map) {
    forms_ = shortcut_forms(job.widths.all, job.config.hidden_size, job.map.oblique());
  }
  forms_.resize(static_cast<size_t>(job.config.num_sublayers()),
                job.shared_map ? kIdentityShortcut : ShortcutForm{});
  // The decompositions do not need the rotations of other sublayers.
  const KeptStream writing(job_.device);
  std::future<void> written;  // one alignment is written while the next one is computed
  const RankShard& shard = job.shard(comm);
  std::vector<int64_t> missing;
  for (int64_t s = shard.first_sublayer; !job.shared_map && s < shard.end_sublayer; ++s) {
    const bool needed = !form(s).dense() && s + 1 < job.widths.mapped_count;
    if (needed && !job_.journal.has(entries::kShortcut(s))) missing.push_back(s);
  }
  for (const int64_t s : missing) {
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
      job_.journal.put(entries::kShortcut(s), tensors);
    });
    if (!shard.overlaps) written.wait();
  }
  if (written.valid()) written.get();
  comm.barrier();  // every alignment is in the journal
  if (!job.shared_map) return;
  const PhaseClock::Scope scope(clock, "align");
  const ScopedThreads threads(job.map.decomposition_threads);
  // Quantizers work best if large weights are spread over all channels. With tied embeddings the
  // final norm determines the rotation.
  rotation_.R = tied_norm.defined()
                    ? norm_rotation(tied_norm, job_.load_map(kSharedMap).M)
                    : to_device(spreading_rotation(job_.widths.largest()), job_.device);
}

JunctionMap AlignedMaps::rotated() const {
  JunctionMap map = job_.load_map(junction_);
  if (orthonormal_) map = JunctionMap(map.M);
  const at::Tensor& R = rotation_.R;
  if (!R.defined()) return map;
  const at::Tensor M = at::mm(map.M.to(at::kDouble), R);
  if (!map.oblique) return JunctionMap(M);
  return {M, at::mm(R.t(), map.M_inv.to(at::kDouble))};
}

JunctionMap AlignedMaps::map() const {
  if (junction_ >= job_.widths.mapped_count) return whole_;
  const PhaseClock::Scope scope(clock_, "align");
  const ScopedThreads threads(job_.map.decomposition_threads);
  return rotated().to(job_.fold_dtype);
}

void AlignedMaps::next() {
  const int64_t sublayer = junction_;
  const PhaseClock::Scope scope(clock_, "align");
  const ScopedThreads threads(job_.map.decomposition_threads);
  rotation_.A.reset();
  rotation_.B.reset();
  const ShortcutForm& shortcut = form(sublayer);
  if (job_.shared_map) {
    // The rotation is the same, too.
  } else if (shortcut.dense()) {
    rotation_.R.reset();
  } else if (sublayer + 1 >= job_.widths.mapped_count) {
    // A last junction of full width. Behind an oblique map its shortcut needs factors.
    const JunctionMap before = rotated();
    whole_ = JunctionMap(complete_basis(before.M.to(at::kDouble)).to(job_.fold_dtype));
    if (before.oblique && *shortcut.rank != 0) {
      Alignment found = align_oblique_to_whole(before.to(at::kDouble), whole_.M.to(at::kDouble),
                                               *shortcut.rank, job_.map.svd_driver);
      rotation_.A = std::move(found.A);
      rotation_.B = std::move(found.B);
    }
  } else {
    const auto kept = job_.journal.get(entries::kShortcut(sublayer));
    const auto tensor = [&](const char* name) {
      return kept.contains(name) ? to_device(kept.at(name).to(at::kDouble), job_.device)
                                 : at::Tensor();
    };
    rotation_.turn({tensor("turn"), tensor("A"), tensor("B")});
  }
  ++junction_;
}

std::optional<AlignedMaps> maps_of_output(Communicator& comm, const CalibrationJob& job,
                                          const ModelConfig& output, PhaseClock& clock) {
  if (job.widths.mapped_count == 0) return std::nullopt;
  const bool tied = job.shared_map && output.tie_word_embeddings;
  return std::optional<AlignedMaps>(std::in_place, comm, job, clock,
                                    tied ? job.read_final_norm(clock) : at::Tensor());
}

}  // namespace dotresize
