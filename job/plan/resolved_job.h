#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "job/model/dtype.h"
#include "job/model/model_config.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/allocate/mlp_widths.h"
#include "job/plan/allocate/shortcut_forms.h"
#include "job/plan/device.h"
#include "job/plan/healing.h"
#include "job/plan/method.h"
#include "job/plan/schedule.h"
#include "job/spec/map_sharing.h"
#include "job/spec/token_source.h"

namespace dotresize {

namespace v1 {
class JobSpec;
}

/// `method.allocate: auto`: the junctions' widths, the MLPs' features and the channels of value
/// heads are chosen by what they are predicted to do to the loss
/// (job/plan/allocate/joint_allocation.h).
struct AllocationTarget {
  double size = 1.0;  ///< net bytes, as `method.size`
  int64_t round_to = 1;
};

/// `calibration.statistics`: at most one of the two.
struct KeptStatistics {
  std::filesystem::path save;
  std::filesystem::path use;

  bool saved() const { return !save.empty(); }
  bool used() const { return !use.empty(); }
  bool given() const { return saved() || used(); }
  const std::filesystem::path& directory() const { return saved() ? save : use; }
  /// The key of the directory, for errors.
  std::string key() const {
    return std::string("calibration.statistics.") + (saved() ? "save" : "use");
  }
};

/// What is known once a job's ranks are launched, and decides what its spec leaves open.
struct LaunchFacts {
  int ranks = 1;  ///< whatever the spec asks for
  DeviceFacts devices = {};
  /// What the host has for each rank, and the GPU with the least of it: budgets, unless the spec
  /// has its own. In bytes.
  std::optional<int64_t> memory = {};
  std::optional<int64_t> device_memory = {};
  /// The schedule of an interrupted run from whose maps the job goes on; empty if there is none. It
  /// is taken if it is one for the job's activations, however much memory there is.
  std::string schedule = {};
};

/// A JobSpec with every default decided and, unless the activations decide them, every width known:
/// what plan, worker and report work from. Made by resolve_job, and const from there on, but that
/// an allocation fills in what it has chosen (with_allocation).
struct ResolvedJob {
  std::string name;
  std::filesystem::path model_path;
  std::filesystem::path output_path;
  std::string model_name;  ///< what the report calls the model: its path, or what that is a copy of
  std::string output_name;  ///< and the output
  bool overwrite = false;
  bool report_html = false;  ///< the report as a page, too
  bool writes_maps = false;  ///< the maps of the junctions, too
  Dtype source_dtype = Dtype::kFloat32;
  Dtype output_dtype = Dtype::kFloat32;
  /// Family of a stock output that is not its source's (`output.architecture`).
  std::optional<std::string> stock_family = {};

  Method method;
  int64_t hidden_size = 0;  ///< d of the model
  // As asked for; if none of the three is there, the width itself was given.
  std::optional<double> sparsity;
  std::optional<double> size;
  std::optional<AllocationTarget> allocation;
  bool allow_larger = false;
  JunctionWidths widths;  ///< unless widths_known() those of the dense model, as a bound
  double lambda = 0.1;
  bool head_sliced = false;
  bool accept_nonconvergence = false;
  Schedule schedule;
  MapSharing map_sharing = MapSharing::kJunction;
  std::vector<int64_t> junction_groups;  ///< as in ModelConfig; empty if no map is shared
  Shortcuts shortcuts;                   ///< of no meaning in a stock output
  Metric metric = Metric::kActivation;
  /// Absent: the MLPs stay as they are.
  std::optional<MlpTarget> mlp;

  /// The tokens go through the dense model and back.
  bool gradients() const { return metric == Metric::kFisher; }
  /// Of its maps M_inv is not the transpose of M (docs/method.md, "The metric of the loss").
  bool oblique_maps() const { return metric == Metric::kFisher && method.pca(); }

  /// The output is a model of the source family, without code of its own.
  bool stock_output() const { return map_sharing == MapSharing::kModel; }

  /// Value heads may become narrower than the others, which no stock model can state.
  bool allocates_values() const { return allocation && !stock_output(); }

  /// False if the loss decides: it is known while the job runs.
  bool widths_known() const { return !allocation; }

  TokenSource calibration;
  KeptStatistics statistics;
  std::optional<TokenSource> evaluation;
  /// The evaluation's windows are those of the calibration's source that the calibration leaves.
  bool evaluates_unused_windows = false;
  bool kl = true;  ///< of an evaluation: `evaluation.kl`

  /// Absent: nothing is trained.
  std::optional<Healing> healing = {};
  bool heals() const { return healing && healing->epochs > 0; }

  /// The compressed model's predictions are compared with the dense one's.
  bool compares_predictions() const { return evaluation && kl; }

  int ranks = 1;
  /// Before the launch `auto` is the CPU, and the dtype that of most GPUs if one is asked for.
  DeviceKind device = DeviceKind::kCpu;
  Dtype compute_dtype = Dtype::kFloat32;
  /// Compute dtype on a GPU, if the ranks compute on one, or may with `auto`; else absent.
  std::optional<Dtype> gpu_compute_dtype = {};
  /// Budgets of each rank in bytes, of the host and of its GPU; absent: no limit is known.
  std::optional<int64_t> memory = {};
  std::optional<int64_t> device_memory = {};
  int timeout_s = 600;
};

/// Applies the defaults of proto/dotresize/v1/job.proto and checks the job against the model (width
/// up to hidden_size, a size that is available and below the dense model's unless larger ones are
/// allowed, ranks up to the number of sublayers, seqlen up to max_position_embeddings, times the
/// factor of a dynamic rotary embedding) and the file system (token and text files are regular
/// files; no input lies in the output), and chooses a schedule that its budgets have room for.
/// `spec` must have passed validate_spec. `launch`: of the ranks that will run it, if they are
/// there. Throws InputError naming the key.
ResolvedJob resolve_job(const v1::JobSpec& spec, const ModelConfig& config,
                        const std::optional<LaunchFacts>& launch = {});

/// Junctions 0 .. summed_junctions()-1 are those whose moments are taken: those with a map, and of
/// statistics that are saved all, unless they are an allocation's.
int64_t summed_junctions(const ModelConfig& config, const ResolvedJob& job);
/// Whether there are any.
inline bool sums_junctions(const ResolvedJob& job) {
  return (job.statistics.saved() && !job.allocation) || job.widths.mapped_count > 0;
}
/// Whether statistics stand for all passes over the calibration tokens. An allocation takes its
/// first round from them alone: what it cuts, and its maps, are of the sizes that it chooses.
inline bool takes_no_tokens(const ResolvedJob& job) {
  return job.statistics.used() && !job.allocation;
}

/// What `resources.device` asks for; nothing for `auto`.
std::optional<DeviceKind> asked_device(const v1::JobSpec& spec);

/// What `compute_dtype: auto` is on GPUs of this compute capability (90 for sm_90).
Dtype auto_gpu_dtype(int capability);

}  // namespace dotresize
