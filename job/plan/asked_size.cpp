#include "job/plan/asked_size.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/errors.h"
#include "base/text/human_text.h"
#include "job/model/model_size.h"

namespace dotresize {
namespace {

/// Bytes of the dense model in the output's dtypes.
double whole_bytes(const ModelConfig& config, const StoredDtypes& output) {
  ModelConfig whole = config;
  whole.dtypes = output;
  whole.file_bytes = 0;
  return static_cast<double>(stored_bytes(whole));
}

double size_of_bytes(const v1::Method& method, const ModelConfig& config) {
  const int64_t dense = stored_bytes(config);
  const int64_t bytes = parse_bytes(method.bytes()).value();
  if (bytes >= dense && !method.allow_larger()) {
    throw InputError("method.bytes", method.bytes() + " is not less than the dense model has, " +
                                         with_separators(dense) + " bytes");
  }
  return static_cast<double>(bytes) / static_cast<double>(dense);
}

bool has_mixture(const ModelConfig& config) {
  return std::ranges::any_of(config.layers,
                             [](const LayerSpec& layer) { return layer.mlp.mixture.has_value(); });
}

double size_of_speed(double speed, const ModelConfig& config, const StoredDtypes& output) {
  if (has_mixture(config)) {
    throw InputError("method.speed", "a token uses some experts of this " + config.family +
                                         " alone, so bytes do not give a speed; give size or "
                                         "bytes");
  }
  const auto all = static_cast<double>(prompt_multiplications(config));
  const double removed = all * (1.0 - 1.0 / speed);
  const double left = whole_bytes(config, output) - removed * size_in_bytes(output.main);
  const double ends = static_cast<double>(end_size(config).bytes);
  if (left <= ends) {
    const auto head = static_cast<double>(head_matrix_size(config).parameters);
    throw InputError("method.speed",
                     fmt::format("{} is not available: without any layer the model would be {:.1f} "
                                 "times as fast",
                                 speed, all / head));
  }
  return left / static_cast<double>(stored_bytes(config));
}

}  // namespace

double asked_size(const v1::Method& method, const ModelConfig& config, const StoredDtypes& output) {
  if (method.has_bytes()) return size_of_bytes(method, config);
  if (method.has_speed()) return size_of_speed(method.speed(), config, output);
  return method.size();
}

std::optional<double> speed_at_size(double size, const ModelConfig& config,
                                    const StoredDtypes& output) {
  if (has_mixture(config)) return std::nullopt;
  const double removed =
      (whole_bytes(config, output) - size * static_cast<double>(stored_bytes(config))) /
      size_in_bytes(output.main);
  const auto all = static_cast<double>(prompt_multiplications(config));
  return removed < all ? std::optional(all / (all - removed)) : std::nullopt;
}

}  // namespace dotresize
