#include "worker/calibration/fold_stage.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "job/plan/block_sizes.h"
#include "worker/calibration/aligned_maps.h"
#include "worker/maps/fold.h"
#include "worker/transformer/fold_sublayer.h"
#include "worker/transformer/sublayer_loader.h"

namespace dotresize {
namespace {

/// Calls fold(first, rows) with blocks of rows of the embedding or the head, as `role` says, in the
/// fold dtype on the device.
template <typename Fold>
void for_each_rows(const CalibrationJob& job, TensorRole role, PhaseClock& clock,
                   const Fold& fold) {
  const StoredTensor matrix =
      role == TensorRole::kEmbedding ? embedding_tensor(job.config) : head_matrix(job.config);
  const int64_t count = matrix.shape.at(0);
  for (int64_t first = 0; first < count; first += kFoldedVocabularyRows) {
    const at::Tensor rows =
        job.read_rows(matrix, first, std::min(kFoldedVocabularyRows, count - first), clock);
    const PhaseClock::Scope scope(clock, "fold");
    fold(first, rows);
  }
}

void put_head(const CalibrationJob& job, const JunctionMap& map, FoldedModelSink& sink,
              PhaseClock& clock) {
  const at::Tensor gamma = job.read_final_norm(clock);
  const ModelConfig& output = sink.output();
  if (!output.tie_word_embeddings) {
    for_each_rows(job, TensorRole::kHead, clock, [&](int64_t first, const at::Tensor& rows) {
      sink.put_end(TensorRole::kHead, fold_head({gamma, rows}, map.M_inv).weight, first);
    });
  } else if (output.form.head_projection) {
    sink.put_end(TensorRole::kHeadProjection, head_projection(gamma, map.M_inv), 0);
  } else {
    sink.put_end(TensorRole::kFinalNorm, output.compressed ? gamma : tied_norm(gamma, map.M), 0);
  }
}

SublayerWeights next_sublayer(SublayerLoader& loader, PhaseClock& clock) {
  const PhaseClock::Scope scope(clock, "read");
  return loader.next();
}

/// Copies the shard: all of its tensors except those of a tied head.
void copy_stage(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                PhaseClock& clock) {
  const RankShard& shard = job.shard(comm);
  if (shard.first_sublayer == 0) {
    for_each_rows(job, TensorRole::kEmbedding, clock, [&](int64_t first, const at::Tensor& rows) {
      sink.put_end(TensorRole::kEmbedding, rows, first);
    });
  }
  SublayerLoader loader(job.reader, job.config, job.fold_dtype, job.device, shard.first_sublayer,
                        shard.end_sublayer);
  for (int64_t sublayer = shard.first_sublayer; sublayer < shard.end_sublayer; ++sublayer) {
    sink.put_sublayer(next_sublayer(loader, clock));
  }
  if (shard.end_sublayer < job.config.num_sublayers()) return;
  sink.put_end(TensorRole::kFinalNorm, job.read_final_norm(clock), 0);
  if (sink.output().tie_word_embeddings) return;
  for_each_rows(job, TensorRole::kHead, clock, [&](int64_t first, const at::Tensor& rows) {
    sink.put_end(TensorRole::kHead, rows, first);
  });
}

}  // namespace

void fold_stage(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                PhaseClock& clock) {
  std::optional<AlignedMaps> aligned = maps_of_output(comm, job, sink.output(), clock);
  if (!aligned) return copy_stage(comm, job, sink, clock);
  AlignedMaps& maps = *aligned;
  const RankShard& shard = job.shard(comm);
  while (maps.junction() < shard.first_sublayer) maps.next();
  JunctionMap map = maps.map();
  if (shard.first_sublayer == 0) {
    const bool projects = sink.output().form.embedding_projection;
    for_each_rows(job, TensorRole::kEmbedding, clock, [&](int64_t first, const at::Tensor& rows) {
      sink.put_end(TensorRole::kEmbedding, projects ? rows : fold_embedding(rows, map.M), first);
    });
    if (projects) sink.put_end(TensorRole::kEmbeddingProjection, map.M.t(), 0);
  }
  SublayerLoader loader(job.reader, job.config, job.fold_dtype, job.device, shard.first_sublayer,
                        shard.end_sublayer);
  for (int64_t sublayer = shard.first_sublayer; sublayer < shard.end_sublayer; ++sublayer) {
    SublayerWeights weights = next_sublayer(loader, clock);
    const PhaseClock::Scope scope(clock, "fold");
    weights = fold_input(weights, map.M_inv);
    maps.next();
    map = maps.map();
    const bool dense = maps.form(sublayer).dense();
    if (!dense) weights.shortcut = at::Tensor();  // needs no M_inv·M
    if (map.M.defined()) weights = fold_output(weights, map.M);
    if (!dense) {
      const ShortcutFactors factors = maps.factors();
      weights.shortcut = at::Tensor();
      weights.shortcut_A = factors.A;
      weights.shortcut_B = factors.B;
    }
    sink.put_sublayer(weights);
  }
  if (shard.end_sublayer == job.config.num_sublayers()) put_head(job, map, sink, clock);
}

}  // namespace dotresize
