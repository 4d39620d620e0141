#pragma once

#include <cstdint>

#include "job/plan/memory_model.h"

namespace dotresize {

/// What a rank holds in host memory, in bytes.
struct HostMemory : MemoryModel {
  /// Activations of one microbatch through a sublayer.
  int64_t microbatch() const;
  /// float64: 4 matrices [d, d] for the eigenvectors or the transport.
  int64_t workspace() const { return 4 * kDouble * d * d; }
  /// The largest sublayer (a mixture of experts with all of them), or the vocabulary table of the
  /// ends, in the fold dtype (maps/fold.h), before and after, and once more while it is written; on
  /// a GPU once more in pinned memory instead.
  int64_t folding() const;
  /// The job's, which runs as a pipeline: the stage's weights and three microbatches.
  int64_t evaluation() const;
};

/// The most host memory, in bytes, that a rank with this shard needs at a time, without that of the
/// libraries and of the file cache. If the ranks compute on GPUs the host has nothing but what is
/// read and folded. Reads first_sublayer, end_sublayer and parameters.
int64_t estimate_peak_memory(const ModelConfig& config, const ResolvedJob& job,
                             const RankShard& shard);

}  // namespace dotresize
