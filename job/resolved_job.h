#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "job/map_sharing.h"
#include "job/model_config.h"

namespace dotresize {

namespace v1 {
class JobSpec;
}

enum class Method { kMagnitude, kDotResize, kSliceGpt, kPcaDotResize };
enum class Schedule { kPipeline, kTokenParallel };  ///< activations: original, compressed
enum class CostScale { kMax, kMean, kNone };
enum class Dtype { kFloat32, kFloat16, kBFloat16 };
enum class DeviceKind { kCpu, kCuda };

/// Whether the method works in the basis of principal components, and whether it solves a
/// transport.
bool uses_pca(Method method);
bool uses_transport(Method method);

/// The field's own spelling: "pca_dotresize", "token_parallel", "max", "bfloat16".
std::string to_string(Method method);
std::string to_string(Schedule schedule);
std::string to_string(CostScale scale);
std::string to_string(Dtype dtype);
std::string to_string(DeviceKind device);
int64_t size_in_bytes(Dtype dtype);

/// Where tokens come from: text files or one token file.
struct TokenSource {
  std::vector<std::filesystem::path> text;
  std::filesystem::path tokens;  ///< empty where `text` is given
  std::optional<int64_t> samples;
  std::optional<int64_t> seqlen;  ///< absent: the token file's row length, else 2048
};

/// A JobSpec with every default decided and every width known: what plan, worker and report work
/// from.
struct ResolvedJob {
  std::string name;
  std::filesystem::path model_path;
  std::filesystem::path output_path;
  bool overwrite = false;
  Dtype source_dtype = Dtype::kFloat32;
  Dtype output_dtype = Dtype::kFloat32;

  Method method = Method::kPcaDotResize;
  std::optional<double> sparsity;  ///< as asked for, for the report
  int64_t width = 0;               ///< k of every compressed junction
  double lambda = 0.1;
  CostScale cost_scale = CostScale::kMax;
  bool head_sliced = false;
  double sinkhorn_tolerance = 1e-8;
  int64_t sinkhorn_max_iterations = 10000;
  bool accept_nonconvergence = false;
  Schedule schedule = Schedule::kPipeline;
  std::vector<int64_t> junction_widths;  ///< 2L+1
  MapSharing map_sharing;
  std::vector<int64_t> junction_groups;  ///< as in ModelConfig; empty where no map is shared

  /// The output is a model of the source family, without code of its own.
  bool stock_output() const { return map_sharing.kind == MapSharing::Kind::kModel; }

  TokenSource calibration;
  std::optional<TokenSource> evaluation;

  int ranks = 1;
  /// `auto` is the CPU here, and the dtype that of most GPUs where a GPU is asked for: who has
  /// looked at the ranks' devices puts what it found into the spec first.
  DeviceKind device = DeviceKind::kCpu;
  Dtype compute_dtype = Dtype::kFloat32;
  int timeout_s = 600;
};

/// Applies the defaults of proto/dotresize/v1/job.proto and checks the job against the model (width
/// up to hidden_size, ranks up to the number of sublayers, seqlen up to max_position_embeddings,
/// times the factor of a dynamic rotary embedding) and the file system (token and text files are
/// regular files; no input lies in the output). `spec` must have passed validate_spec. Throws
/// InputError naming the key.
ResolvedJob resolve_job(const v1::JobSpec& spec, const ModelConfig& config);

}  // namespace dotresize
