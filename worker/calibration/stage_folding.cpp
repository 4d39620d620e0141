#include "worker/calibration/stage_folding.h"

#include <ATen/ATen.h>

#include <memory>

#include "worker/calibration/sublayer_loader.h"
#include "worker/maps/fold.h"
#include "worker/transformer/fold_sublayer.h"
#include "worker/transformer/load.h"

namespace dotresize {
namespace {

/// M_inv [width, d] of the last junction of the rank before; undefined on the first rank.
at::Tensor exchange_inverse_maps(Communicator& comm, const CalibrationJob& job, int64_t width,
                                 const std::vector<JunctionSolution>& solutions) {
  std::unique_ptr<Transfer> sending;
  if (comm.rank() + 1 < comm.size()) {
    sending = comm.send(solutions.back().map.M_inv.contiguous(), comm.rank() + 1);
  }
  at::Tensor M_inv;
  if (comm.rank() > 0) {
    M_inv = at::empty({width, job.config.hidden_size}, at::dtype(at::kDouble).device(job.device));
    comm.receive(M_inv, comm.rank() - 1)->wait();
  }
  if (sending) sending->wait();
  return M_inv;
}

template <typename Load>
auto read(PhaseClock& clock, const Load& load) {
  const PhaseClock::Scope scope(clock, "read");
  return load();
}

}  // namespace

void fold_stage(Communicator& comm, const CalibrationJob& job, int64_t width,
                const std::vector<JunctionSolution>& solutions, FoldedModelSink& sink,
                PhaseClock& clock) {
  at::Tensor M_inv = exchange_inverse_maps(comm, job, width, solutions);
  const PhaseClock::Scope scope(clock, "fold");
  const RankShard& shard = job.plan.ranks.at(static_cast<size_t>(comm.rank()));
  const at::ScalarType dtype = job.fold_dtype;
  auto solution = solutions.begin();
  if (shard.first_sublayer == 0) {
    const at::Tensor embedding =
        read(clock, [&] { return load_embedding(job.reader, job.config, at::kFloat); });
    sink.put_embedding(fold_embedding(embedding, solution->map.M.to(dtype)));
    M_inv = solution->map.M_inv;
    ++solution;
  }
  SublayerLoader loader(job, clock);
  for (int64_t sublayer = shard.first_sublayer; sublayer < shard.end_sublayer; ++sublayer) {
    const SublayerWeights dense = loader.take(sublayer);
    if (sublayer + 1 < shard.end_sublayer) loader.read_ahead(sublayer + 1);
    SublayerWeights folded = fold_input(dense, M_inv.to(dtype));
    M_inv = at::Tensor();
    if (solution != solutions.end()) {
      folded = fold_output(folded, solution->map.M.to(dtype));
      M_inv = solution->map.M_inv;
      ++solution;
    }
    if (job.shares_map(sublayer)) folded.shortcut = at::Tensor();  // M_inv·M, the identity
    sink.put_sublayer(folded);
  }
  if (shard.end_sublayer == job.config.num_sublayers()) {
    const HeadWeights head = read(clock, [&] { return load_head(job.reader, job.config, dtype); });
    sink.put_head(fold_head(head, M_inv.defined() ? M_inv.to(dtype) : M_inv));
  }
}

}  // namespace dotresize
