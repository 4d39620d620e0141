#include "job/plan/resolve/output_form.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/errors.h"
#include "job/model/families/families.h"

namespace dotresize {
namespace {

/// Returns why the family has no narrower stock model of this config. Empty: it has.
std::string reason_against_stock(const ModelConfig& config) {
  const ModelFamily& family = *find_family(config.family);
  return family.refuses_stock == nullptr ? "" : family.refuses_stock(config);
}

void check_stock_output(const ModelConfig& config, const ResolvedJob& job) {
  if (!job.stock_output() || job.widths.largest() == config.hidden_size) return;
  const std::string reason = reason_against_stock(config);
  if (reason.empty()) return;
  throw InputError("output.format", "a stock model of the family '" + config.family + "' " +
                                        reason + "; 'any' is available");
}

/// Returns what the code of an output with maps (modeling_dotresize.py) lacks to compute the model:
/// it has one window for all layers, and neither factors nor sinks. Empty: nothing.
std::string reason_against_custom_maps(const ModelConfig& config) {
  const bool scaled = std::ranges::any_of(
      config.layers, [](const LayerSpec& layer) { return layer.residual_scale != 1.0; });
  if (scaled || config.embedding_scale != 1.0 || config.logit_scale != 1.0 || config.logit_cap) {
    return "the model multiplies its embedding, its layers' outputs or its logits by factors";
  }
  const auto has_sinks = [](const LayerSpec& layer) { return layer.attention.sinks; };
  if (std::ranges::any_of(config.layers, has_sinks)) {
    return "each head of the model's attention has a sink, a score without a key";
  }
  const auto& first = config.layers.front().attention.sliding_window;
  const bool differ = std::ranges::any_of(config.layers, [&](const LayerSpec& layer) {
    return layer.attention.sliding_window != first;
  });
  return differ ? "some layers of the model have a sliding window and others have none" : "";
}

void check_maps(const ModelConfig& config, const ResolvedJob& job) {
  if (job.widths.mapped_count == 0) return;
  const std::string reason = reason_against_maps(config, job.stock_output());
  if (reason.empty()) return;
  const bool stock_would_do = reason_against_maps(config, /*stock=*/true).empty();
  throw InputError("method", "a narrower residual stream is not available: " + reason +
                                 "; a size alone, such as {size: 0.8}," +
                                 (stock_would_do ? " or output.format: stock" : "") + " would do");
}

}  // namespace

std::string reason_against_maps(const ModelConfig& config, bool stock) {
  if (config.files.wrapper) {
    return "the images of a " + config.files.wrapper->model_type + " enter it with its full width";
  }
  if (!config.norms_fold()) {
    return std::string(config.norm_offset == 0.0
                           ? "the model norms what its layers add to the stream"
                           : "the model adds 1 to the weights of its norms") +
           ", and such a norm does not fold";
  }
  if (config.has_shared_expert()) return "the model has an expert that all tokens share";
  return stock ? reason_against_stock(config) : reason_against_custom_maps(config);
}

void resolve_architecture(v1::Output::Architecture asked, const ModelConfig& config,
                          ResolvedJob& job) {
  if (asked == v1::Output::auto_) return;
  const std::string wanted = v1::Output::Architecture_Name(asked);
  const auto refuse = [&](const std::string& reason) {
    throw InputError("output.architecture", wanted + " " + reason);
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

void check_output_form(const ModelConfig& config, const ResolvedJob& job) {
  check_stock_output(config, job);
  check_maps(config, job);
}

}  // namespace dotresize
