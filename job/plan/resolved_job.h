#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "job/model/dtype.h"
#include "job/model/model_config.h"
#include "job/model/units/unit.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/device.h"
#include "job/plan/healing.h"
#include "job/plan/method.h"
#include "job/plan/schedule.h"
#include "job/spec/requests.h"

namespace dotresize {

/// `method.allocate: auto`: the sizes of all units are chosen by their predicted effect on the loss
/// (job/plan/allocate/allocation.h).
struct AllocationTarget {
  double size = 1.0;  ///< net bytes over dense bytes, as in `method.size`
  /// Units of the model that may get smaller, in the order of kUnits.
  std::vector<const Unit*> units = {kUnits.begin(), kUnits.end()};
};

/// `calibration.statistics`: at most one of the two is set.
struct KeptStatistics {
  std::filesystem::path save;
  std::filesystem::path use;

  bool saved() const { return !save.empty(); }
  bool used() const { return !use.empty(); }
  bool given() const { return saved() || used(); }
  const std::filesystem::path& directory() const { return saved() ? save : use; }
  /// Key of the directory, for errors.
  std::string key() const {
    return std::string("calibration.statistics.") + (saved() ? "save" : "use");
  }
};

/// The dense model of a job.
struct JobModel {
  std::filesystem::path path;
  std::string name;         ///< model in the report: its path, or what it was copied from
  int64_t hidden_size = 0;  ///< d, the width of the residual stream
};

/// Output directory of a job.
struct OutputTarget {
  std::filesystem::path path;
  std::string name;  ///< output in the report: its path, or its final destination
  /// Dtypes of the output's tensors, and perhaps of source tensors that it does not have.
  StoredDtypes dtypes = {};
  bool overwrite = false;
  bool report_html = false;  ///< also write the report as a page
  bool writes_maps = false;  ///< also write the maps of the junctions
  /// Family of a stock output, if it differs from the source's (`output.architecture`).
  std::optional<std::string> stock_family = {};
};

/// Key that asks for a size: `method.size`, `method.bytes` or `method.speed`.
struct AskedSize {
  std::string key = "method.size";
  std::string value = {};  ///< as given

  /// Throws InputError naming the key. `reason` follows the value: "is not available".
  [[noreturn]] void refuse(double size, const std::string& reason) const;
};

/// Target of the widths in the spec. If all three are absent, the spec gives the width itself.
struct WidthTarget {
  std::optional<double> sparsity;
  std::optional<double> size;
  std::optional<AllocationTarget> allocation;
  AskedSize asked = {};  ///< used only with `size` or `allocation`
  bool allow_larger = false;
};

/// Settings of the maps besides their method and widths.
struct MapSettings {
  double lambda = 0.1;
  bool head_sliced = false;
  bool accept_nonconvergence = false;
  /// True if all junctions share one map, the last one included: a stock output (docs/method.md,
  /// "Sharing maps"). Else each junction has its own.
  bool shared = false;
  Metric metric = Metric::kActivation;

  /// "junction", "model", as the report has it.
  const char* sharing() const { return shared ? "model" : "junction"; }
};

/// Text or tokens of the evaluation.
struct EvaluationSource : TokenSource {
  /// True if these are windows of the calibration's source that the calibration leaves.
  bool unused_windows = false;
  bool kl = true;  ///< also measure the divergence from the dense model
};

/// Ranks of a job, and what each may use.
struct JobResources {
  int ranks = 1;
  /// Device that the ranks compute on. `auto` counts as the CPU before the launch.
  DeviceKind device = DeviceKind::kCpu;
  Dtype compute_dtype = Dtype::kFloat32;
  /// Compute dtype on a GPU, if the ranks compute on one, or may with `auto`; else absent. Before
  /// the launch a GPU is assumed to be sm_80 or newer.
  std::optional<Dtype> gpu_compute_dtype = {};
  /// Budgets of each rank in bytes, for the host and for its GPU. Absent: no limit is known.
  std::optional<int64_t> memory = {};
  std::optional<int64_t> device_memory = {};
  int timeout_s = 600;
};

/// True if a rank that takes `bytes` stays within its budget. Without a budget it always does.
inline bool within_budget(int64_t bytes, const std::optional<int64_t>& budget) {
  return !budget || bytes <= *budget;
}

/// A JobSpec with every default decided. Plan, worker and report work from it. resolve_job
/// (job/plan/resolve/resolve_job.h) makes it, and it is constant from then on.
struct ResolvedJob {
  std::string name;
  JobModel model;
  OutputTarget output;
  Method method;
  WidthTarget target;
  JunctionWidths widths;
  MapSettings maps;
  std::optional<MlpTarget> mlp;  ///< absent: the MLPs stay as they are
  Schedule schedule;
  TokenSource calibration;
  KeptStatistics statistics;
  std::optional<EvaluationSource> evaluation;
  std::optional<Healing> healing = {};  ///< absent: nothing is trained
  JobResources resources;

  /// True if the tokens go forward and back through the dense model.
  bool gradients() const { return maps.metric == Metric::kFisher; }
  /// True if M_inv of a map is not the transpose of M (docs/method.md, "The metric of the loss").
  bool oblique_maps() const { return gradients() && method.pca(); }
  /// True if the output is a stock model, which needs no code of its own.
  bool stock_output() const { return maps.shared; }
  /// True if parts of attentions may be removed.
  bool cuts_attentions() const {
    return target.allocation && std::ranges::any_of(target.allocation->units, &Unit::of_attentions);
  }
  /// False if the loss decides what the sublayers keep. That is then known while the job runs.
  bool sizes_known() const { return !target.allocation; }
  ScheduleNeeds schedule_needs() const { return {stock_output(), gradients(), statistics.given()}; }
  bool heals() const { return healing && healing->epochs > 0; }
  /// True if the compressed model's predictions are compared with the dense model's.
  bool compares_predictions() const { return evaluation && evaluation->kl; }
};

/// Number of junctions whose moments are taken: junctions 0 .. summed_junctions()-1. These are the
/// junctions with a map, or all if statistics are saved without an allocation.
int64_t summed_junctions(const ModelConfig& config, const ResolvedJob& job);
/// True if moments of any junction are taken.
bool sums_junctions(const ResolvedJob& job);
/// True if statistics replace all passes over the calibration tokens. An allocation takes only its
/// curves from them: its cuts depend on the sizes that it chooses.
bool takes_no_tokens(const ResolvedJob& job);

/// Length of windows if nothing says it: kDefaultSeqlen, or the model's positions if they are
/// fewer.
int64_t default_seqlen(const ModelConfig& config);

/// Number and length of the calibration windows. Texts are assumed to have as many.
int64_t expected_samples(const ResolvedJob& job);
int64_t expected_seqlen(const ResolvedJob& job, const ModelConfig& config);
/// Tokens in these windows. An evaluation runs as many at a time, all ranks together: its stream
/// then takes no more memory than that of the calibration.
int64_t expected_tokens(const ResolvedJob& job, const ModelConfig& config);
/// Tokens in the windows of the evaluation. If it uses the whole of a text, whose length is not
/// known, as many as the calibration has.
int64_t expected_evaluation_tokens(const ResolvedJob& job, const ModelConfig& config);

/// True if the job may cut the sublayer.
bool may_be_cut(const ResolvedJob& job, int64_t sublayer);
/// Number of these sublayers in [first, end).
int64_t count_cut_sublayers(const ResolvedJob& job, int64_t first, int64_t end);

}  // namespace dotresize
