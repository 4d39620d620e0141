#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dotresize/v1/sweep.pb.h"
#include "job/spec/job_file.h"
#include "job/spec/validate_spec.h"

namespace dotresize {

/// A key of `method` or `calibration` that a sweep varies.
struct SweepAxis {
  struct Value {
    std::string text;  ///< as written; for a range, as computed
    v1::JobSpec spec;  ///< only this key is set
    int line = 1;
  };
  std::string key;  ///< "method.lambda"
  std::vector<Value> values;
};

/// Models of a sweep that are kept (`sweep.keep`).
enum class KeptModels { kBest, kAll, kNone };

/// A job file with a section `sweep` (docs/sweeps.md).
struct SweepFile {
  JobFile base;  ///< the job without the varied keys; may be invalid on its own
  std::vector<SweepAxis> axes;
  KeptModels keep = KeptModels::kBest;
};

/// One job of the sweep: one value for each axis.
struct SweepVariant {
  std::vector<std::string> values;         ///< texts, in the order of the axes
  v1::JobSpec spec;                        ///< spec of the job; output.path is the sweep's
  std::vector<FieldViolation> violations;  ///< empty: the job is possible
};

/// Returns true if a job file has a section `sweep`. Throws InputError if it is not a YAML file.
bool is_sweep_file(const std::filesystem::path& path);

/// Reads a sweep file like open_job_file; `changes` apply to the job. Throws InputError with one
/// line per fault. Values that no variant can have, and faults that all variants have, count as
/// faults of the file.
SweepFile open_sweep_file(const std::filesystem::path& path,
                          const std::vector<std::string>& changes = {});

/// Text version, like parse_job.
SweepFile parse_sweep(const std::string& text, const std::string& origin,
                      const std::filesystem::path& base_dir,
                      const std::vector<std::string>& changes = {});

/// Returns all combinations; the last axis varies fastest.
std::vector<SweepVariant> variants_of(const SweepFile& sweep);

/// Converts the axes and `keep` of a sweep file to the API's message. Numbers and paths have the
/// form that they have in the job. `parallel` is not set: no file has it.
v1::SweepSpec sweep_spec_of(const SweepFile& sweep);

/// Returns the JSON sweep file with this job and these axes, as input for parse_sweep. Throws
/// InputError for a value that JSON cannot represent.
std::string sweep_to_json(const v1::JobSpec& spec, const v1::SweepSpec& sweep);

}  // namespace dotresize
