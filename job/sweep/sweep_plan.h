#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dotresize/v1/job.pb.h"
#include "job/model/model_config.h"
#include "job/spec/sweep_file.h"

namespace dotresize {

/// One of the different jobs of a sweep.
struct SweepJob {
  /// A directory's name: the values, and a hash of all that the result depends on, the model's and
  /// the texts' files among them. Another sweep with this job has the same one.
  std::string id;
  std::vector<std::string>
      values;        ///< of the axes; kOfNoUse for those that the method does not read
  v1::JobSpec spec;  ///< without statistics
  int ranks = 1;
  int64_t memory_bytes = 0;  ///< peak of all ranks, estimated
  bool on_gpus = false;      ///< or may be
  bool transport = false;    ///< the statistics that it saves have costs
  std::string statistics;    ///< name of those that it has in common with others; empty: none
  bool with_costs = false;   ///< these have costs
  std::string dense_loss;    ///< name of the dense model's loss
  // Unless the activations decide them:
  std::optional<int64_t> width;
  std::optional<double> bytes_fraction;  ///< net, of the dense ones
};
inline constexpr char kOfNoUse[] = "-";

/// Values that make no job.
struct RefusedVariant {
  std::vector<std::string> values;
  std::string reason;
};

struct SweepPlan {
  SweepFile file;
  std::filesystem::path directory;  ///< output.path
  int64_t combinations = 0;
  std::vector<SweepJob> jobs;  ///< each combination that is possible has one of them
  std::vector<RefusedVariant> refused;
};

/// Plans every job of the sweep. Throws InputError for what is wrong with the file or the model.
SweepPlan plan_sweep(SweepFile file);

/// What will be run, a line for each thing to know.
std::string sweep_summary(const SweepPlan& plan, int at_once);

}  // namespace dotresize
