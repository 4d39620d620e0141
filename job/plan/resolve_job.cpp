#include "job/plan/resolve_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "dotresize/v1/job.pb.h"
#include "job/checkpoint/token_shape.h"
#include "job/model/families/families.h"
#include "job/model/tensor_table.h"
#include "job/plan/allocate/allocation.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/asked_size.h"
#include "job/plan/block_sizes.h"
#include "job/plan/net_size.h"
#include "job/spec/spec_paths.h"
#include "job/spec/validate_spec.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

/// Compute capability of the first GPUs that compute in bfloat16: sm_80.
constexpr int kFirstCapabilityWithBfloat16 = 80;

[[noreturn]] void fail(const std::string& key, const std::string& what) {
  throw InputError(key, what);
}

const Schedule& schedule_of(v1::Calibration::Activations activations, const ResolvedJob& job) {
  const auto offers_all = [&](const Schedule& schedule) { return offers(schedule, job); };
  if (activations == v1::Calibration::auto_) {
    const Schedule& usual = schedule_for_activations(job.method.pca() ? "original" : "compressed");
    return offers_all(usual) ? usual : *std::ranges::find_if(schedules(), offers_all);
  }
  const Schedule& asked = schedule_for_activations(v1::Calibration::Activations_Name(activations));
  if (!offers(asked, job)) {
    fail("calibration.activations", std::string(asked.activations) +
                                        " does not go with shared maps, the metric fisher or kept "
                                        "statistics");
  }
  return asked;
}

void require_regular_file(const std::string& key, const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    fail(key, in_quotes(path.string()) + ": no such file");
  }
  if (error) fail(key, in_quotes(path.string()) + ": " + error.message());
  if (!fs::is_regular_file(status)) fail(key, in_quotes(path.string()) + " is not a regular file");
}

/// Sets the files of a source, and for a token file also what its header says.
template <class Source>
std::optional<int64_t> resolve_source(const std::string& section, const Source& given,
                                      const Confinement& confinement, TokenSource& source) {
  for (const std::string& text : given.text()) {
    require_regular_file(section + ".text", text);
    source.text.emplace_back(text);
  }
  if (given.has_seqlen()) source.seqlen = given.seqlen();
  if (given.has_samples()) source.samples = given.samples();
  if (!source.text.empty()) return std::nullopt;
  source.tokens = given.tokens();
  require_regular_file(section + ".tokens", source.tokens);
  try {
    const TokenShape shape = read_token_shape(source.tokens, confinement);
    source.count = shape.count;
    return shape.row_length;
  } catch (const InputError& error) {
    fail(section + ".tokens", error.what());
  }
}

TokenSource calibration_source(const v1::Calibration& given, const ModelConfig& config,
                               const Confinement& confinement) {
  TokenSource source;
  const std::optional<int64_t> row_length =
      resolve_source("calibration", given, confinement, source);
  if (!source.seqlen) source.seqlen = row_length.value_or(default_seqlen(config));
  if (!source.samples) {
    source.samples =
        row_length ? std::max<int64_t>(*source.count / *source.seqlen, 1) : kDefaultSamples;
  }
  return source;
}

EvaluationSource evaluation_source(const v1::Evaluation& given, const TokenSource& calibration,
                                   const Confinement& confinement) {
  EvaluationSource source;
  source.unused_windows = given.text_size() == 0 && given.tokens().empty();
  if (source.unused_windows) {
    static_cast<TokenSource&>(source) = calibration;
  } else {
    resolve_source("evaluation", given, confinement, source);
    if (!source.seqlen) source.seqlen = calibration.seqlen;
  }
  source.samples.reset();
  if (given.has_samples()) source.samples = given.samples();
  source.kl = !given.has_kl() || given.kl();
  return source;
}

/// `given`: the job file has the key.
void check_seqlen(const std::string& section, bool given, const TokenSource& source,
                  const ModelConfig& config) {
  if (source.seqlen.value_or(0) <= config.longest_window()) return;
  const bool stretched = std::ranges::any_of(
      config.rotaries, [](const RotaryConfig& rotary) { return rotary.type == "dynamic"; });
  fail(section + ".seqlen",
       std::to_string(*source.seqlen) + " is more than the model's max_position_embeddings, " +
           std::to_string(config.max_position_embeddings) +
           (stretched ? ", times the factor of its rotary embedding, " +
                            std::to_string(config.longest_window())
                      : "") +
           (given ? ""
                  : ": the rows of the token file have this length; a smaller seqlen cuts them"));
}

/// Sets the widths, or what decides them. Everything else that affects the output's size must be
/// set before.
void resolve_widths(const v1::Method& given, int64_t asked_round_to, const ModelConfig& config,
                    ResolvedJob& job) {
  const auto set_width = [&](int64_t k) {
    job.widths = decided(uniform_widths(config, job.maps.head_sliced, k), config.hidden_size);
  };
  set_width(config.hidden_size);
  // The output's architecture may need widths that its heads divide.
  const bool heads_count =
      job.stock_output() &&
      find_family(job.output.stock_family.value_or(config.family))->heads_divide_hidden_size;
  const AttentionSpec& attention = config.layers.front().attention;
  const int64_t unit = heads_count ? attention.num_heads : 1;
  const int64_t round_to = std::lcm(asked_round_to, unit);
  job.target.allow_larger = given.allow_larger();
  if (given.has_width()) {
    if (given.width() > config.hidden_size) {
      fail("method.width", std::to_string(given.width()) +
                               " is more than the model's hidden_size, " +
                               std::to_string(config.hidden_size));
    }
    if (given.width() % unit != 0) {
      fail("method.width", std::to_string(given.width()) + " is not a multiple of " +
                               std::to_string(unit) + ", the number of attention heads, as a " +
                               config.family + " model needs it (output.format is stock)");
    }
    set_width(given.width());
  } else if (given.has_sparsity()) {
    job.target.sparsity = given.sparsity();
    const int64_t width = width_from_sparsity(given.sparsity(), config.hidden_size, round_to);
    if (width == 0) {
      const bool rounded =
          width_from_sparsity(given.sparsity(), config.hidden_size, /*round_to=*/unit) > 0;
      fail("method.sparsity",
           std::to_string(given.sparsity()) + " of hidden size " +
               std::to_string(config.hidden_size) + " leaves no width that is a multiple of " +
               std::to_string(round_to) + "; a smaller sparsity" +
               (rounded ? ", a smaller round_to" : "") + " or an explicit width would do");
    }
    set_width(width);
  } else if (job.target.allocation) {
    check_allocation_target(config, job);
  } else {
    job.target.size = given.size();
    set_width(width_from_size(given.size(), round_to, config, job));
  }
  if (job.target.allow_larger || !job.sizes_known()) return;
  const std::string warning =
      size_warning(net_size(config, job, job.widths), job, stored_dtypes(config),
                   stored_dtypes(output_model_config(config, job, job.widths)));
  if (warning.empty()) return;
  const char* const key = given.has_sparsity() ? "method.sparsity"
                          : given.has_width()  ? "method.width"
                                               : "method.size";
  fail(key, warning + "; method.allow_larger: true allows it");
}

/// Does the same. Errors about a size name the key that asks for it.
void resolve_asked_widths(const v1::Method& given, int64_t round_to, const ModelConfig& config,
                          ResolvedJob& job) {
  try {
    resolve_widths(given, round_to, config, job);
  } catch (const InputError& error) {
    if (error.field() != "method.size" || asked_key(given) == error.field()) throw;
    fail(asked_key(given), fmt::format("{} is a size of {:.6g}: {}", asked_value(given),
                                       given.size(), error.description()));
  }
}

/// Refuses a narrower stock model that its family does not have.
void check_stock_output(const ModelConfig& config, const ResolvedJob& job) {
  if (!job.stock_output() || job.widths.largest() == config.hidden_size) return;
  const ModelFamily& family = *find_family(config.family);
  const auto refuse = [&](const std::string& reason) {
    fail("output.format",
         "a stock model of the family '" + config.family + "' " + reason + "; 'any' is available");
  };
  const std::string reason = family.refuses_stock == nullptr ? "" : family.refuses_stock(config);
  if (!reason.empty()) refuse(reason);
}

/// Refuses maps for models that the code of an output with maps (modeling_dotresize.py) does not
/// compute: it has one window for all layers, and neither factors nor sinks.
void check_maps(const ModelConfig& config, const ResolvedJob& job) {
  if (job.widths.mapped_count == 0) return;
  if (config.files.wrapper) {
    fail("method",
         "a narrower residual stream is not available: the images of a " +
             config.files.wrapper->model_type +
             " enter it with its full width; a size alone, such as {size: 0.8}, would do");
  }
  if (!config.norms_fold()) {
    const std::string norms = config.norm_offset == 0.0
                                  ? "the model norms what its layers add to the stream"
                                  : "the model adds 1 to the weights of its norms";
    fail("method", "a narrower residual stream is not available: " + norms +
                       ", and such a norm does not fold; a size alone, such as {size: 0.8}, would "
                       "do");
  }
  if (config.has_shared_expert()) {
    fail("method",
         "a narrower residual stream is not available: the model has an expert that all tokens "
         "share; a size alone, such as {size: 0.8}, would do");
  }
  if (job.stock_output()) return;
  const auto refuse = [](const std::string& reason) {
    fail("method", "a narrower residual stream is not available: " + reason +
                       "; a size alone, such as {size: 0.8}, or output.format: stock would do");
  };
  const bool scaled = std::ranges::any_of(
      config.layers, [](const LayerSpec& layer) { return layer.residual_scale != 1.0; });
  if (scaled || config.embedding_scale != 1.0 || config.logit_scale != 1.0 || config.logit_cap) {
    refuse("the model multiplies its embedding, its layers' outputs or its logits by factors");
  }
  const auto has_sinks = [](const LayerSpec& layer) { return layer.attention.sinks; };
  if (std::ranges::any_of(config.layers, has_sinks)) {
    refuse("each head of the model's attention has a sink, a score without a key");
  }
  const auto& first = config.layers.front().attention.sliding_window;
  const bool differ = std::ranges::any_of(config.layers, [&](const LayerSpec& layer) {
    return layer.attention.sliding_window != first;
  });
  if (differ) refuse("some layers of the model have a sliding window and others have none");
}

/// Applies the architecture that the job asks for by name.
void resolve_architecture(v1::Output::Architecture asked, const ModelConfig& config,
                          ResolvedJob& job) {
  if (asked == v1::Output::auto_) return;
  const std::string wanted = v1::Output::Architecture_Name(asked);
  const auto refuse = [&](const std::string& reason) {
    fail("output.architecture", wanted + " " + reason);
  };
  if (!job.stock_output()) refuse("needs output.format: stock");
  if (asked == v1::Output::source || wanted == config.family) return;
  if (config.files.wrapper)
    refuse("cannot be the text part of this " + config.files.wrapper->model_type);
  const std::optional<TwinFamily>& twin = find_family(config.family)->twin;
  if (!twin || twin->model_type != wanted) {
    refuse("can be made of a " + std::string(family_with_twin(wanted)) + ", not of a " +
           config.family);
  }
  const std::string reason = twin->refuses(config);
  if (!reason.empty()) refuse(reason);
  job.output.stock_family = wanted;
}

/// Returns the source's dtype of each tensor, or the one that the job asks for. What decides the
/// choice of experts is not rounded. The head of a tied source is its embedding, also if the output
/// has a head of its own.
StoredDtypes output_dtypes(const v1::Output& given, const ModelConfig& config) {
  const std::optional<Dtype> asked = find_dtype(v1::Output::Dtype_Name(given.dtype()));
  if (asked) {
    StoredDtypes dtypes{*asked, {}};
    for (int64_t sublayer = 1; sublayer < config.num_sublayers(); sublayer += 2) {
      if (!config.is_mixture(sublayer) || !config.mlp(sublayer).mixture->choice_bias) continue;
      for (const StoredTensor& tensor : sublayer_tensors(config, sublayer)) {
        if (tensor.role != TensorRole::kChoiceBias) continue;
        dtypes.set(tensor.name, config.files.dtypes.of(tensor.name));
      }
    }
    return dtypes;
  }
  StoredDtypes dtypes = config.files.dtypes;
  if (config.tie_word_embeddings) {
    dtypes.set(head_tensors(config).back().name, dtypes.of(embedding_tensor(config).name));
  };
  return dtypes;
}

void resolve_method(const v1::JobSpec& spec, const ModelConfig& config, ResolvedJob& job) {
  v1::Method given = spec.method();
  complete_method(given);
  const bool asks = asks_for_size(given);
  if (asks) given.set_size(asked_size(given, config, job.output.dtypes));
  const v1::Output::Architecture architecture = spec.output().architecture();
  job.method = method_of(given);
  // The class of a wrapper makes its text part without code.
  job.maps.shared = spec.output().format() == v1::Output::stock || config.files.wrapper.has_value();
  if (given.metric() == v1::Method::fisher) job.maps.metric = Metric::kFisher;
  if (given.allocate() == v1::Method::auto_) {
    job.target.allocation = AllocationTarget{.size = given.size(),
                                             .asked = asked_key(given) + " " + asked_value(given),
                                             .narrows_values = config.value_heads_narrow()};
    job.maps.metric = Metric::kFisher;
  }
  if (given.has_lambda()) job.maps.lambda = given.lambda();
  job.maps.head_sliced = given.head() == v1::Method::sliced || job.stock_output();
  job.maps.accept_nonconvergence = given.on_nonconvergence() == v1::Method::accept;
  resolve_architecture(architecture, config, job);
  job.model.hidden_size = config.hidden_size;
  // With a size, the widths of a stock output are free, so they are such that engines, whose
  // quantizers divide rows, quantize them well. A sparsity is met as closely as in the paper.
  const bool for_engines = job.stock_output() && asks;
  const int64_t usual = config.hidden_size < 2048 ? 8 : for_engines ? 256 : 64;
  const int64_t round_to = given.round_to() != 0 ? given.round_to() : usual;
  if (job.target.allocation) {
    job.mlp.emplace().allocated = true;
    job.mlp->by_layer = !job.stock_output();
    job.mlp->round_to = round_to;
    job.mlp->width = dense_features(config);
    job.mlp->expert_width = expert_features(config);
  } else {
    job.mlp = mlp_target(given, round_to, config);
  }
  resolve_asked_widths(given, round_to, config, job);
  check_stock_output(config, job);
  check_maps(config, job);
  const std::optional<TwinFamily>& twin = find_family(config.family)->twin;
  if (architecture == v1::Output::auto_ && job.stock_output() && twin && !config.files.wrapper &&
      twin->is_read_better(config, job.widths.largest())) {
    job.output.stock_family = twin->model_type;
  }
}

/// Sets the ranks, their device and budgets. What the spec leaves open follows from the launch.
void resolve_resources(const v1::JobSpec& spec, const ModelConfig& config,
                       const std::optional<LaunchFacts>& launch, JobResources& resources) {
  const v1::Resources& given = spec.resources();
  resources.ranks = launch ? launch->ranks : ranks_of(spec);
  if (resources.ranks > config.num_sublayers()) {
    fail("resources.ranks", std::to_string(resources.ranks) + " is more than the model's " +
                                std::to_string(config.num_sublayers()) +
                                " sublayers (an attention and an MLP per layer)");
  }

  const std::optional<Dtype> dtype = find_dtype(v1::ComputeDtype::Name_Name(given.compute_dtype()));
  const std::optional<DeviceKind> device = launch ? launch->devices.device : asked_device(spec);
  resources.device = device.value_or(DeviceKind::kCpu);
  if (device != DeviceKind::kCpu) {
    const int capability = launch ? launch->devices.least_capability : kFirstCapabilityWithBfloat16;
    resources.gpu_compute_dtype = dtype.value_or(auto_gpu_dtype(capability));
  }
  resources.compute_dtype = resources.device == DeviceKind::kCuda ? *resources.gpu_compute_dtype
                                                                  : dtype.value_or(Dtype::kFloat32);

  if (launch) {
    resources.memory = launch->memory;
    resources.device_memory = launch->device_memory;
  }
  if (given.has_memory()) resources.memory = parse_bytes(given.memory());
  if (given.has_device_memory()) resources.device_memory = parse_bytes(given.device_memory());
  if (given.has_timeout_s()) resources.timeout_s = static_cast<int>(given.timeout_s());
}

fs::path canonical(const std::string& key, const fs::path& path) {
  std::error_code error;
  fs::path result = fs::weakly_canonical(path, error);
  if (error) fail(key, in_quotes(path.string()) + ": " + error.message());
  return result;
}

/// Refuses an output that could replace what it is made from. Links are resolved first.
void check_output_is_apart(const ResolvedJob& job) {
  const fs::path output = canonical("output.path", job.output.path);
  if (is_within(output, canonical("model.path", job.model.path))) {
    fail("output.path", in_quotes(job.output.path.string()) + " lies in model.path");
  }
  const auto refuse_within_output = [&](const std::string& key, const fs::path& path) {
    if (!path.empty() && is_within(canonical(key, path), output)) {
      fail(key, in_quotes(path.string()) + " lies in output.path");
    }
  };
  refuse_within_output("model.path", job.model.path);
  const auto check_source = [&](const std::string& section, const TokenSource& source) {
    for (const fs::path& text : source.text) refuse_within_output(section + ".text", text);
    refuse_within_output(section + ".tokens", source.tokens);
  };
  check_source("calibration", job.calibration);
  refuse_within_output(job.statistics.key(), job.statistics.directory());
  if (job.statistics.given() &&
      is_within(output, canonical(job.statistics.key(), job.statistics.directory()))) {
    fail("output.path", in_quotes(job.output.path.string()) + " lies in " + job.statistics.key());
  }
  if (job.evaluation) check_source("evaluation", *job.evaluation);
}

}  // namespace

bool offers(const Schedule& schedule, const ResolvedJob& job) {
  return (schedule.shares_maps || !job.stock_output()) &&
         (schedule.gradients || !job.gradients()) &&
         (schedule.keeps_statistics || !job.statistics.given());
}

const Method& method_of(const v1::Method& completed) {
  return method_named(completed.has_name() ? v1::Method::Name_Name(completed.name()) : "slicegpt");
}

Dtype auto_gpu_dtype(int capability) {
  return capability >= kFirstCapabilityWithBfloat16 ? Dtype::kBFloat16 : Dtype::kFloat16;
}

std::optional<DeviceKind> asked_device(const v1::JobSpec& spec) {
  switch (spec.resources().device()) {
    case v1::Resources::cpu:
      return DeviceKind::kCpu;
    case v1::Resources::cuda:
      return DeviceKind::kCuda;
    default:
      return std::nullopt;
  }
}

ResolvedJob resolve_job(const v1::JobSpec& spec, const ModelConfig& config,
                        const std::optional<LaunchFacts>& launch, const Confinement& confinement) {
  if (config.compressed) {
    fail("model.path",
         "the model is already compressed (model_type dotresize); a dense one is "
         "needed");
  }
  ResolvedJob job;
  job.name = name_of(spec);
  job.model.path = spec.model().path();
  job.output.path = spec.output().path();
  job.model.name = spec.model().origin().empty() ? spec.model().path() : spec.model().origin();
  job.output.name =
      spec.output().destination().empty() ? spec.output().path() : spec.output().destination();
  job.output.overwrite = spec.output().overwrite();
  job.output.report_html = spec.output().report_html();
  job.output.writes_maps = spec.output().maps();
  job.output.dtypes = output_dtypes(spec.output(), config);
  resolve_method(spec, config, job);
  job.statistics = {spec.calibration().statistics().save(), spec.calibration().statistics().use()};
  job.schedule = schedule_of(spec.calibration().activations(), job);
  resolve_resources(spec, config, launch, job.resources);
  job.calibration = calibration_source(spec.calibration(), config, confinement);
  check_seqlen("calibration", spec.calibration().has_seqlen(), job.calibration, config);
  if (spec.has_evaluation()) {
    job.evaluation = evaluation_source(spec.evaluation(), job.calibration, confinement);
    check_seqlen("evaluation", /*given=*/true, *job.evaluation, config);
  }
  if (spec.has_heal()) {
    Healing& healing = job.healing.emplace();
    if (spec.heal().has_samples()) healing.samples = spec.heal().samples();
    if (spec.heal().has_epochs()) healing.epochs = spec.heal().epochs();
    if (spec.heal().has_learning_rate()) healing.learning_rate = spec.heal().learning_rate();
  }
  check_output_is_apart(job);
  return job;
}

}  // namespace dotresize
