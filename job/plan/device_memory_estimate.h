#pragma once

#include <cstdint>
#include <string>

#include "job/plan/memory_model.h"

namespace dotresize {

/// What a rank holds in the memory of its GPU, in bytes.
struct DeviceMemory : MemoryModel {
  /// The stream (float32): received, computed, sent; normed and as an update, both also in the
  /// compute dtype, in which the insides of the sublayer are; the costs' rotated copy and its
  /// float16 form; two float64 matrices [d, d] for the costs' sample (kernels/half_l1_cost.h) or
  /// their rounding.
  int64_t microbatch() const;
  /// float64: 5 matrices [d, d] (the matrix, a copy that becomes the eigenvectors, cuSOLVER's two
  /// and one to order them by).
  int64_t eigenvectors() const { return 5 * kDouble * d * d; }
  /// The larger of the eigenvectors and, float64, 7 matrices [d, k] for the transport (costs as
  /// selected, scaled and divided by lambda, the kernel matrix before and after absorption, two for
  /// log-sum-exp).
  int64_t workspace() const;
  /// M and M_inv, float64 [d, k].
  int64_t map() const { return 2 * kDouble * d * k; }
  /// In the fold dtype (maps/fold.h), with both maps: a sublayer as it was read, the one that it
  /// becomes, the next one, and `written` numbers while they are written.
  int64_t fold(int64_t written) const;
  /// Writes the last sublayer or the narrowed vocabulary table.
  int64_t fold_of_stage() const;
  /// The job's, which runs as a pipeline: the stage's weights and a microbatch.
  int64_t evaluation() const { return job.evaluation ? stage_weights() + microbatch() : 0; }

 private:
  int64_t insides_of_sublayer() const;
  int64_t costs() const;
};

/// The most memory of its GPU, in bytes, that a rank with this shard needs at a time, computing in
/// `compute`; without that of the libraries (CUDA, cuBLAS, cuSOLVER and NCCL take about 1 GiB) and
/// what the allocator loses to fragments. Reads first_sublayer, end_sublayer and parameters.
int64_t estimate_peak_device_memory(const ModelConfig& config, const ResolvedJob& job,
                                    const RankShard& shard, Dtype compute);

/// What to say to a rank with this shard whose GPU has so much free memory; empty if the estimate
/// fits, or there is none.
std::string device_memory_warning(const RankShard& shard, int64_t free_bytes);

}  // namespace dotresize
