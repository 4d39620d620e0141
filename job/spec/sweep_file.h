#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "job/spec/job_file.h"
#include "job/spec/validate_spec.h"

namespace dotresize {

/// A key of `method` or `calibration` that a sweep varies.
struct SweepAxis {
  struct Value {
    std::string text;  ///< as written, or of a range as computed
    v1::JobSpec spec;  ///< with this key alone
    int line = 1;
  };
  std::string key;  ///< "method.lambda"
  std::vector<Value> values;
};

/// Which models of a sweep stay (`sweep.keep`).
enum class KeptModels { kBest, kAll, kNone };

/// A job file with a section `sweep` (docs/sweeps.md).
struct SweepFile {
  JobFile base;  ///< the job without what is varied; its spec alone need not be valid
  std::vector<SweepAxis> axes;
  KeptModels keep = KeptModels::kBest;
};

/// One value of each axis.
struct SweepVariant {
  std::vector<std::string> values;         ///< texts, in the order of the axes
  v1::JobSpec spec;                        ///< of one job; output.path is that of the sweep
  std::vector<FieldViolation> violations;  ///< for which there is no such job
};

/// Whether a job file has a section `sweep`. Throws InputError for what is no YAML file.
bool is_sweep_file(const std::filesystem::path& path);

/// Reads a sweep file as open_job_file reads a job, with `changes` of the job. Throws InputError
/// whose message has one line per fault: also for a value that no variant can have, and for what is
/// wrong with all variants.
SweepFile open_sweep_file(const std::filesystem::path& path,
                          const std::vector<std::string>& changes = {});

/// The same from text, as parse_job.
SweepFile parse_sweep(const std::string& text, const std::string& origin,
                      const std::filesystem::path& base_dir,
                      const std::vector<std::string>& changes = {});

/// All combinations, the last axis fastest.
std::vector<SweepVariant> variants_of(const SweepFile& sweep);

}  // namespace dotresize
