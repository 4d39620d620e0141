#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/confinement.h"
#include "dotresize/v1/job.pb.h"
#include "job/plan/method.h"
#include "job/spec/sweep_file.h"

namespace dotresize {

/// One of the different jobs of a sweep.
struct SweepJob {
  /// Directory name: the values, and a hash of all inputs of the result, the files of model and
  /// texts included. Another sweep with the same job has the same id.
  std::string id;
  std::vector<std::string>
      values;        ///< one for each axis; kNotApplicable if the method does not read it
  v1::JobSpec spec;  ///< `calibration.statistics` is not set
  int ranks = 1;
  int64_t memory_bytes = 0;  ///< estimated peak of all ranks together
  bool on_gpus = false;      ///< the job runs, or may run, on GPUs
  MapSums sums;              ///< sums of the method's maps, which its saved statistics include
  std::string statistics;    ///< name of the statistics shared with other jobs; empty: not shared
  MapSums shared_sums;       ///< sums that the shared statistics include
  std::string dense_loss;    ///< name of the dense model's loss, which jobs may share
  // Absent if the activations decide the widths:
  std::optional<int64_t> width;
  std::optional<double> bytes_fraction;  ///< net bytes, divided by the dense model's
};
inline constexpr char kNotApplicable[] = "-";

/// A combination that makes no job.
struct RefusedVariant {
  std::vector<std::string> values;
  std::string reason;
};

/// Names in a sweep's directory: its results, and the folders of its jobs and of their shared
/// statistics.
inline constexpr char kSweepResults[] = "results.json";
inline constexpr char kSweepVariants[] = "variants";
inline constexpr char kSweepStatistics[] = "statistics";

/// Largest size of a sweep's results, in bytes.
inline constexpr int64_t kMaxSweepBytes = int64_t{64} << 20;

/// Paths in the folder `dir` of one job of a sweep (SWEEP/kSweepVariants/ID).
struct VariantPaths {
  std::filesystem::path dir;  ///< has the report at its place in a model directory
  std::filesystem::path model = dir / "model";
  std::filesystem::path removed = dir / "model.removed";  ///< a model that is being removed
  std::filesystem::path job = dir / "job.json";
  std::filesystem::path log = dir / "log";
};

struct SweepPlan {
  SweepFile file;
  std::filesystem::path directory;  ///< output.path
  int64_t combinations = 0;
  std::vector<SweepJob> jobs;  ///< the different possible jobs
  std::vector<RefusedVariant> refused;
};

/// Plans every job of the sweep. Throws InputError if the file or the model is faulty.
SweepPlan plan_sweep(SweepFile file, const Confinement& confinement = Confinement::of_process());

/// Text for people about the jobs that will run, one line per fact.
std::string sweep_summary(const SweepPlan& plan, int at_once);

}  // namespace dotresize
