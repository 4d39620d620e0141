#include "worker/calibration/fold_stage.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "job/model/tensor_table.h"
#include "job/plan/block_sizes.h"
#include "worker/maps/fold.h"
#include "worker/transformer/fold_sublayer.h"
#include "worker/transformer/load.h"
#include "worker/transformer/sublayer_loader.h"

namespace dotresize {
namespace {

template <typename Load>
auto read(PhaseClock& clock, const Load& load) {
  const PhaseClock::Scope scope(clock, "read");
  return load();
}

/// Calls fold(first, rows) with blocks of rows of the embedding or the head, in the fold dtype on
/// the device.
template <typename Fold>
void for_each_rows(const CalibrationJob& job, const StoredTensor& matrix, PhaseClock& clock,
                   const Fold& fold) {
  const int64_t count = matrix.shape.at(0);
  for (int64_t first = 0; first < count; first += kFoldedVocabularyRows) {
    const at::Tensor rows = read(clock, [&] {
      return to_device(load_rows(job.reader, matrix, first,
                                 std::min(kFoldedVocabularyRows, count - first), job.fold_dtype),
                       job.device);
    });
    const PhaseClock::Scope scope(clock, "fold");
    fold(first, rows);
  }
}

at::Tensor read_final_norm(const CalibrationJob& job, PhaseClock& clock) {
  return read(clock, [&] {
    return to_device(load_before_head(job.reader, job.config, job.fold_dtype).norm, job.device);
  });
}

void put_embedding(const CalibrationJob& job, const JunctionMap& map, FoldedModelSink& sink,
                   PhaseClock& clock) {
  const bool projects = sink.output().form.embedding_projection;
  for_each_rows(job, embedding_tensor(job.config), clock,
                [&](int64_t first, const at::Tensor& rows) {
                  sink.put_embedding_rows(first, projects ? rows : fold_embedding(rows, map.M));
                });
  if (projects) sink.put_end(TensorRole::kEmbeddingProjection, map.M.t());
}

/// Writes the end of a model whose head reads the embedding's table.
void put_tied_head(const at::Tensor& gamma, const JunctionMap& map, FoldedModelSink& sink) {
  const ModelConfig& output = sink.output();
  if (output.form.head_projection) {
    sink.put_end(TensorRole::kHeadProjection, head_projection(gamma, map.M_inv));
  } else {
    sink.put_end(TensorRole::kFinalNorm, output.compressed ? gamma : tied_norm(gamma, map.M));
  }
}

void put_head(const CalibrationJob& job, const JunctionMap& map, FoldedModelSink& sink,
              PhaseClock& clock) {
  const at::Tensor gamma = read_final_norm(job, clock);
  if (sink.output().tie_word_embeddings) return put_tied_head(gamma, map, sink);
  for_each_rows(job, head_matrix(job.config), clock, [&](int64_t first, const at::Tensor& rows) {
    sink.put_head_rows(first, fold_head({gamma, rows}, map.M_inv).weight);
  });
}

/// Completes a sublayer whose in_proj is folded: folds the map behind it (M undefined: the
/// identity) and sets its shortcut in this form.
SublayerWeights fold_behind(SublayerWeights weights, const JunctionMap& map,
                            const ShortcutFactors& factors, const ShortcutForm& form) {
  if (!form.dense()) weights.shortcut = at::Tensor();  // needs no M_inv·M
  if (map.M.defined()) weights = fold_output(weights, map.M);
  if (!form.dense()) set_shortcut_factors(weights, factors);
  return weights;
}

/// Copies the shard: all of its tensors except those of a tied head.
void copy_stage(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                PhaseClock& clock) {
  const RankShard& shard = job.shard(comm);
  if (shard.first_sublayer == 0) {
    for_each_rows(
        job, embedding_tensor(job.config), clock,
        [&](int64_t first, const at::Tensor& rows) { sink.put_embedding_rows(first, rows); });
  }
  SublayerLoader loader(job.reader, job.config, job.fold_dtype, job.device);
  for (int64_t sublayer = shard.first_sublayer; sublayer < shard.end_sublayer; ++sublayer) {
    const SublayerWeights weights = read(clock, [&] { return loader.take(sublayer); });
    if (sublayer + 1 < shard.end_sublayer) loader.read_ahead(sublayer + 1);
    sink.put_sublayer(weights);
  }
  if (shard.end_sublayer < job.config.num_sublayers()) return;
  sink.put_end(TensorRole::kFinalNorm, read_final_norm(job, clock));
  if (sink.output().tie_word_embeddings) return;
  for_each_rows(job, head_matrix(job.config), clock,
                [&](int64_t first, const at::Tensor& rows) { sink.put_head_rows(first, rows); });
}

}  // namespace

std::optional<AlignedMaps> maps_of_output(Communicator& comm, const CalibrationJob& job,
                                          const ModelConfig& output, PhaseClock& clock) {
  if (job.mapped_junctions() == 0) return std::nullopt;
  const bool stock = !output.compressed;
  const bool tied = stock && output.tie_word_embeddings;
  return std::optional<AlignedMaps>(std::in_place, comm, job, clock, stock,
                                    tied ? read_final_norm(job, clock) : at::Tensor());
}

void fold_stage(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                PhaseClock& clock) {
  std::optional<AlignedMaps> aligned = maps_of_output(comm, job, sink.output(), clock);
  if (!aligned) return copy_stage(comm, job, sink, clock);
  AlignedMaps& maps = *aligned;
  const RankShard& shard = job.shard(comm);
  while (maps.junction() < shard.first_sublayer) maps.next();
  JunctionMap map = maps.map();
  if (shard.first_sublayer == 0) put_embedding(job, map, sink, clock);
  SublayerLoader loader(job.reader, job.config, job.fold_dtype, job.device);
  for (int64_t sublayer = shard.first_sublayer; sublayer < shard.end_sublayer; ++sublayer) {
    SublayerWeights weights = read(clock, [&] { return loader.take(sublayer); });
    if (sublayer + 1 < shard.end_sublayer) loader.read_ahead(sublayer + 1);
    const PhaseClock::Scope scope(clock, "fold");
    weights = fold_input(weights, map.M_inv);
    maps.next();
    map = maps.map();
    sink.put_sublayer(fold_behind(weights, map, maps.factors(), maps.form(sublayer)));
  }
  if (shard.end_sublayer == job.config.num_sublayers()) put_head(job, map, sink, clock);
}

}  // namespace dotresize
