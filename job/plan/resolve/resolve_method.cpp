#include "job/plan/resolve/resolve_method.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "job/model/families/families.h"
#include "job/model/model_size.h"
#include "job/plan/allocate/allocation.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/net_size.h"
#include "job/plan/resolve/asked_size.h"
#include "job/plan/resolve/output_form.h"
#include "job/spec/validate_spec.h"

namespace dotresize {
namespace {

/// Returns true if a method by name can make the stream so narrow that the model has this size.
bool maps_meet(double size, const ModelConfig& config, const ResolvedJob& job) {
  if (!reason_against_maps(config, job.stock_output()).empty()) return false;
  ResolvedJob named = job;
  named.target.allocation.reset();
  named.mlp.reset();
  const JunctionWidths narrowest = uniform_widths(config, named.maps.head_sliced,
                                                  std::min(job.mlp->round_to, config.hidden_size));
  const NetSize net = net_size(config, output_model_config(config, named, narrowest));
  return net.compressed_bytes <= largest_bytes(size, net.dense_bytes);
}

/// Refuses a size that even the smallest sublayers do not meet, before any activation is seen.
void check_allocation_target(const ModelConfig& config, const ResolvedJob& job) {
  const double size = job.target.allocation->size;
  const int64_t dense = stored_bytes(config);
  const int64_t fewest = fewest_bytes(config, job);
  if (fewest <= largest_bytes(size, dense)) return;
  const std::string advice =
      maps_meet(size, config, job)
          ? fmt::format(
                "a method by name, such as {{name: slicegpt, size: {:.6g}}}, also narrows "
                "the residual stream",
                size)
          : "give a larger size";
  std::vector<std::string> parts;
  for (const Unit* unit : job.target.allocation->units) parts.emplace_back(unit->parts);
  job.target.asked.refuse(
      size,
      fmt::format("is not available: the fewest {} leave {} of the dense model's bytes; {}",
                  fmt::join(parts, " and "),
                  size_text(static_cast<double>(fewest) / static_cast<double>(dense)), advice));
}

/// Returns the divisor of the widths and the features that a stock output needs: transformers 5
/// multiplies by all experts of a mixture at once, if their rows are whole blocks of 16 bytes.
int64_t step_of_experts(const ModelConfig& config, const ResolvedJob& job) {
  constexpr int64_t kBlockBytes = 16;
  if (!job.stock_output() || expert_features(config) == 0) return 1;
  return kBlockBytes / size_in_bytes(job.output.dtypes.main);
}

/// Refuses a width of the job, unless it is the source's own.
void check_rows_of_experts(const std::string& key, int64_t given, int64_t of_source, int64_t step,
                           const ResolvedJob& job) {
  if (given == of_source || given % step == 0) return;
  throw InputError(
      key, fmt::format("{} is not a multiple of {}, as transformers needs the rows of experts in "
                       "{} (output.format is stock)",
                       given, step, to_string(job.output.dtypes.main)));
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
      throw InputError("method.width", std::to_string(given.width()) +
                                           " is more than the model's hidden_size, " +
                                           std::to_string(config.hidden_size));
    }
    if (given.width() % unit != 0) {
      throw InputError("method.width",
                       std::to_string(given.width()) + " is not a multiple of " +
                           std::to_string(unit) + ", the number of attention heads, as a " +
                           config.family + " model needs it (output.format is stock)");
    }
    check_rows_of_experts("method.width", given.width(), config.hidden_size,
                          step_of_experts(config, job), job);
    set_width(given.width());
  } else if (given.has_sparsity()) {
    job.target.sparsity = given.sparsity();
    const int64_t width = width_from_sparsity(given.sparsity(), config.hidden_size, round_to);
    if (width == 0) {
      const bool rounded =
          width_from_sparsity(given.sparsity(), config.hidden_size, /*round_to=*/unit) > 0;
      throw InputError("method.sparsity", std::to_string(given.sparsity()) + " of hidden size " +
                                              std::to_string(config.hidden_size) +
                                              " leaves no width that is a multiple of " +
                                              std::to_string(round_to) + "; a smaller sparsity" +
                                              (rounded ? ", a smaller round_to" : "") +
                                              " or an explicit width would do");
    }
    set_width(width);
  } else if (job.target.allocation) {
    check_allocation_target(config, job);
  } else {
    job.target.size = given.size();
    set_width(width_from_size(given.size(), round_to, config, job));
  }
  if (job.target.allow_larger || !job.sizes_known()) return;
  const ModelConfig output = output_model_config(config, job, job.widths);
  const std::string warning =
      size_warning(net_size(config, output), job, stored_dtypes(config), stored_dtypes(output));
  if (warning.empty()) return;
  const std::string key = given.has_sparsity() ? "method.sparsity"
                          : given.has_width()  ? "method.width"
                                               : job.target.asked.key.c_str();
  throw InputError(key, warning + "; method.allow_larger: true allows it");
}

}  // namespace

void resolve_method(const v1::JobSpec& spec, const ModelConfig& config, ResolvedJob& job) {
  v1::Method given = spec.method();
  complete_method(given);
  const bool asks = asks_for_size(given);
  if (asks) {
    job.target.asked = asked_by(given);
    given.set_size(asked_size(given, config, job.output.dtypes));
  }
  const v1::Output::Architecture architecture = spec.output().architecture();
  job.method = method_of(given);
  // The class of a wrapper makes its text part without code.
  job.maps.shared = spec.output().format() == v1::Output::stock || config.files.wrapper.has_value();
  if (given.metric() == v1::Method::fisher) job.maps.metric = Metric::kFisher;
  if (given.allocate() == v1::Method::auto_) {
    AllocationTarget& target = job.target.allocation.emplace();
    target.size = given.size();
    std::erase_if(target.units, [&](const Unit* unit) {
      return !unit->in_model(config) || (job.stock_output() && !unit->in_stock);
    });
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
  const int64_t step = step_of_experts(config, job);
  const int64_t round_to =
      std::lcm(given.round_to() != 0 ? int64_t{given.round_to()} : usual, step);
  if (job.target.allocation) {
    job.mlp.emplace().allocated = true;
    job.mlp->by_layer = !job.stock_output();
    job.mlp->round_to = round_to;
    job.mlp->width = dense_features(config);
    job.mlp->expert_width = expert_features(config);
  } else {
    job.mlp = mlp_target(given, round_to, config);
    if (job.mlp) {
      check_rows_of_experts("method.mlp.width", job.mlp->expert_width, expert_features(config),
                            step, job);
    }
  }
  resolve_widths(given, round_to, config, job);
  check_output_form(config, job);
  const std::optional<TwinFamily>& twin = find_family(config.family)->twin;
  if (architecture == v1::Output::auto_ && job.stock_output() && twin && !config.files.wrapper &&
      twin->is_read_better(config, job.widths.largest()) &&
      keeps_tokenizer_class(config, twin->model_type)) {
    job.output.stock_family = twin->model_type;
  }
}

const Method& method_of(const v1::Method& completed) {
  return method_named(completed.has_name() ? v1::Method::Name_Name(completed.name()) : "slicegpt");
}

}  // namespace dotresize
