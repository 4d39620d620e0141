#include "job/plan/estimate/peak_memory.h"

#include <algorithm>
#include <optional>

#include "base/process/work_budget.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/steps/step.h"

namespace dotresize {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
/// Resident pages of the programs and their libraries, measured with a rank of a tiny model: on a
/// host libtorch and MPI; on a GPU the context, cuBLAS, cuSOLVER and NCCL.
constexpr int64_t kHostLibraries = 190 * kMiB;
constexpr int64_t kHostLibrariesWithCuda = 1536 * kMiB;
constexpr int64_t kDeviceLibraries = 1024 * kMiB;

/// Numbers of a quantised weight and their scales in float32, a block at a time.
constexpr int64_t kFactors = 16 * kMiB;

int64_t libraries(DeviceKind device) {
  return device == DeviceKind::kCuda ? kDeviceLibraries : kHostLibraries;
}

/// Largest peak of any step, on the computing device or on the host of a GPU.
int64_t largest_peak(const RankOnDevice& rank, int64_t (*Step::*peak)(const RankSizes&)) {
  const ModelConfig cut_config = with_cut_mlps(rank.config, rank.job.mlp);
  const RankSizes dense(rank);
  const RankSizes cut({cut_config, rank.job, rank.shard, rank.device, rank.compute});
  int64_t most = 0;
  for (const Step* step : steps()) {
    if (step->*peak == nullptr || !step->runs(rank.job)) continue;
    most = std::max(most, (step->*peak)(step->after_cut ? cut : dense));
  }
  return most;
}

}  // namespace

bool cut_fits(const ModelConfig& config, const ResolvedJob& job, const RankShard& shard) {
  const auto has_room = [&](DeviceKind device, Dtype compute,
                            const std::optional<int64_t>& budget) {
    const RankSizes rank({config, job, shard, device, compute});
    return within_budget(kCutStep.memory(rank) + libraries(device), budget);
  };
  return (job.resources.device == DeviceKind::kCuda ||
          has_room(DeviceKind::kCpu, job.resources.compute_dtype, job.resources.memory)) &&
         (!job.resources.gpu_compute_dtype ||
          has_room(DeviceKind::kCuda, *job.resources.gpu_compute_dtype,
                   job.resources.device_memory));
}

int64_t estimate_peak_memory(const ModelConfig& config, const ResolvedJob& job,
                             const RankShard& shard) {
  const RankOnDevice rank{config, job, shard, job.resources.device, job.resources.compute_dtype};
  const RankSizes sizes(rank);
  // A quantised weight is a copy in 16 bits, unlike others, which are views of their files.
  const int64_t copies = config.files.quantisation
                             ? sizes.dense_sublayer * size_in_bytes(Dtype::kBFloat16) + kFactors
                             : 0;
  if (job.resources.device == DeviceKind::kCpu) {
    return largest_peak(rank, &Step::memory) + copies + kHostLibraries;
  }
  // Weights are there three times: as read, in pinned memory, and one more copy.
  const int64_t read = sizes.dense_sublayer * std::max(sizes.fold_bytes, sizes.compute_bytes);
  return largest_peak(rank, &Step::host_memory) + copies + 3 * read + kHostLibrariesWithCuda;
}

int64_t estimate_peak_device_memory(const ModelConfig& config, const ResolvedJob& job,
                                    const RankShard& shard) {
  if (!job.resources.gpu_compute_dtype) return 0;
  const Dtype compute = *job.resources.gpu_compute_dtype;
  return largest_peak({config, job, shard, DeviceKind::kCuda, compute}, &Step::memory) +
         kDeviceLibraries;
}

bool set_peaks(const ModelConfig& config, const ResolvedJob& job, ShardPlan& plan) {
  for (RankShard& shard : plan.ranks) {
    WorkBudget::check();
    shard.peak_memory_bytes = estimate_peak_memory(config, job, shard);
    if (job.resources.gpu_compute_dtype) {
      shard.peak_device_memory_bytes = estimate_peak_device_memory(config, job, shard);
    }
  }
  return fits(plan, job);
}

}  // namespace dotresize
