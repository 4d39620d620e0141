#include "job/rotary_config.h"

#include <optional>
#include <tuple>

namespace dotresize {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr int64_t kMaxPositions = int64_t{1} << 31;

/// What both dialects keep in one object: the type and, for llama3, its parameters.
RotaryConfig read_scaling(const ConfigFields& fields) {
  RotaryConfig rotary;
  const auto rope_type = fields.text("rope_type");
  const auto old_name = fields.text("type");
  if (rope_type && old_name && *rope_type != *old_name) {
    fields.fail("type", "'" + *old_name + "' contradicts rope_type, '" + *rope_type + "'");
  }
  rotary.type = rope_type ? *rope_type : old_name.value_or("default");
  if (rotary.type == "default") return rotary;
  if (rotary.type != "llama3") {
    fields.fail("rope_type", "'" + rotary.type + "' is not supported; default and llama3 are");
  }
  rotary.factor = fields.required_positive("factor", kMaxFactor);
  rotary.low_freq_factor = fields.required_positive("low_freq_factor", kMaxFactor);
  rotary.high_freq_factor = fields.required_positive("high_freq_factor", kMaxFactor);
  rotary.original_max_position_embeddings =
      fields.required_integer("original_max_position_embeddings", 1, kMaxPositions);
  if (rotary.factor < 1.0) fields.fail("factor", "must be at least 1");
  if (rotary.high_freq_factor <= rotary.low_freq_factor) {
    fields.fail("high_freq_factor", "must be above low_freq_factor");
  }
  return rotary;
}

std::optional<RotaryConfig> read_version5(const ConfigFields& config, double theta_if_absent) {
  const auto parameters = config.object("rope_parameters");
  if (!parameters) return std::nullopt;
  if (parameters->has("full_attention") || parameters->has("sliding_attention")) {
    config.fail("rope_parameters", "settings by layer type are not supported");
  }
  RotaryConfig rotary = read_scaling(*parameters);
  if (const auto theta = parameters->positive("rope_theta", kMaxTheta)) {
    rotary.theta = *theta;
  } else {
    rotary.theta = config.positive("rope_theta", kMaxTheta).value_or(theta_if_absent);
  }
  return rotary;
}

std::optional<RotaryConfig> read_version4(const ConfigFields& config, double theta_if_absent) {
  const auto theta = config.positive("rope_theta", kMaxTheta);
  const auto scaling = config.object("rope_scaling");
  if (!theta && !scaling) return std::nullopt;
  RotaryConfig rotary = scaling ? read_scaling(*scaling) : RotaryConfig{};
  rotary.theta = theta.value_or(theta_if_absent);
  return rotary;
}

double read_partial_factor(const ConfigFields& config) {
  const auto version4 = config.positive("partial_rotary_factor", 1.0);
  const auto parameters = config.object("rope_parameters");
  const auto version5 =
      parameters ? parameters->positive("partial_rotary_factor", 1.0) : std::nullopt;
  if (version4 && version5 && *version4 != *version5) {
    config.fail("partial_rotary_factor", "contradicts that of rope_parameters");
  }
  return version5.value_or(version4.value_or(1.0));
}

bool equal(const RotaryConfig& a, const RotaryConfig& b) {
  const auto values = [](const RotaryConfig& r) {
    return std::tie(r.type, r.theta, r.factor, r.low_freq_factor, r.high_freq_factor,
                    r.original_max_position_embeddings);
  };
  return values(a) == values(b);
}

}  // namespace

RotaryConfig read_rotary_config(const ConfigFields& config, double theta_if_absent) {
  const auto version5 = read_version5(config, theta_if_absent);
  const auto version4 = read_version4(config, theta_if_absent);
  if (version5 && version4 && !equal(*version5, *version4)) {
    config.fail("rope_parameters", "contradicts rope_theta and rope_scaling");
  }
  RotaryConfig rotary =
      version5 ? *version5 : version4.value_or(RotaryConfig{.theta = theta_if_absent});
  rotary.partial_factor = read_partial_factor(config);
  return rotary;
}

}  // namespace dotresize
