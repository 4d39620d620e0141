#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job/model/dtype.h"
#include "job/model/model_config.h"
#include "job/plan/device.h"
#include "job/plan/method.h"
#include "job/spec/map_sharing.h"
#include "job/spec/token_source.h"

namespace dotresize {

namespace v1 {
class JobSpec;
}

enum class Schedule { kPipeline, kTokenParallel };  ///< activations: original, compressed

/// The field's own spelling: "token_parallel".
std::string to_string(Schedule schedule);

/// `method.widths`: every junction's width is a multiple of `round_to` (or hidden_size) whose
/// leading eigenvalues hold a fraction of its energy that is the same for all.
struct EnergyTarget {
  std::optional<double> keep;  ///< the fraction is at least this
  std::optional<double> size;  ///< and the largest of which this net size comes
  int64_t round_to = 1;
  std::optional<double> held;  ///< what it was found to be, once the widths are known
};

/// A JobSpec with every default decided and, unless energy decides them, every width known: what
/// plan, worker and report work from.
struct ResolvedJob {
  std::string name;
  std::filesystem::path model_path;
  std::filesystem::path output_path;
  bool overwrite = false;
  Dtype source_dtype = Dtype::kFloat32;
  Dtype output_dtype = Dtype::kFloat32;

  Method method = method_named("pca_dotresize");
  int64_t hidden_size = 0;  ///< d of the model
  // As asked for; where none of the three is given, the width itself was.
  std::optional<double> sparsity;
  std::optional<double> size;
  std::optional<EnergyTarget> energy;
  bool allow_larger = false;
  /// k of every compressed junction; from energy, the largest that one may have.
  int64_t width = 0;
  double lambda = 0.1;
  CostScale cost_scale = CostScale::kMax;
  bool head_sliced = false;
  double sinkhorn_tolerance = 1e-8;
  int64_t sinkhorn_max_iterations = 10000;
  bool accept_nonconvergence = false;
  Schedule schedule = Schedule::kPipeline;
  std::vector<int64_t> junction_widths;  ///< 2L+1; bounds where !widths_known()
  MapSharing map_sharing;
  std::vector<int64_t> junction_groups;  ///< as in ModelConfig; empty where no map is shared

  /// The output is a model of the source family, without code of its own.
  bool stock_output() const { return map_sharing.kind == MapSharing::Kind::kModel; }

  /// False where energy decides and the activations have not been seen yet.
  bool widths_known() const { return !energy || energy->held; }
  /// Those of `junction_widths` that the method decides: all, or all but the dense head's.
  std::span<const int64_t> compressed_widths() const;
  /// Gives the compressed junctions the width k.
  void set_width(int64_t k);
  /// 1 - (mean width of the compressed junctions) / hidden_size.
  double nominal_sparsity() const;

  TokenSource calibration;
  std::optional<TokenSource> evaluation;

  int ranks = 1;
  /// `auto` is the CPU here, and the dtype that of most GPUs where a GPU is asked for: who has
  /// looked at the ranks' devices puts what it found into the spec first.
  DeviceKind device = DeviceKind::kCpu;
  Dtype compute_dtype = Dtype::kFloat32;
  /// Compute dtype on a GPU, where the ranks compute on one, or would with `auto`; else absent.
  std::optional<Dtype> gpu_compute_dtype = {};
  int timeout_s = 600;
};

/// Applies the defaults of proto/dotresize/v1/job.proto and checks the job against the model (width
/// up to hidden_size, a size that can be had and is below the dense model's unless larger ones are
/// allowed, ranks up to the number of sublayers, seqlen up to max_position_embeddings, times the
/// factor of a dynamic rotary embedding) and the file system (token and text files are regular
/// files; no input lies in the output). `spec` must have passed validate_spec. Throws InputError
/// naming the key.
ResolvedJob resolve_job(const v1::JobSpec& spec, const ModelConfig& config);

}  // namespace dotresize
