#include "job/model/rotary_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

namespace dotresize {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr const char* kOriginalPositions = "original_max_position_embeddings";

/// Inputs for reading the settings of one dialect.
struct Reading {
  const ConfigFields& fields;  ///< rope_parameters or rope_scaling
  const ConfigFields& config;  ///< the whole file
  const ModelFamily& family;
  const ModelConfig& model;
};

std::string shown(double number) { return nlohmann::json(number).dump(); }

void require_at_least_1(const Reading& read, const std::string& key, double value) {
  if (value < 1.0) read.fields.fail(key, shown(value) + " is below 1");
}

double required_factor(const Reading& read) {
  const double factor = read.fields.required_positive("factor", kMaxFactor);
  require_at_least_1(read, "factor", factor);
  return factor;
}

/// Reads original_max_position_embeddings. transformers 5 prefers the value outside the rotary
/// settings. transformers 4 uses only that one for longrope, and never uses it for yarn and llama3.
/// So both values must agree.
std::optional<int64_t> original_positions(const Reading& read) {
  const auto inside = read.fields.integer(kOriginalPositions, 1, kMaxPositions);
  auto outside = read.config.integer(kOriginalPositions, 1, kMaxPositions);
  if (!outside) outside = read.family.original_max_position_embeddings_if_absent;
  if (inside && outside && *inside != *outside) {
    read.fields.fail(
        kOriginalPositions,
        std::to_string(*inside) + " contradicts that of the model, " + std::to_string(*outside));
  }
  return outside ? outside : inside;
}

void read_linear(const Reading& read, RotaryConfig& rotary) {
  rotary.factor = required_factor(read);
}

void read_dynamic(const Reading& read, RotaryConfig& rotary) {
  rotary.factor = required_factor(read);
  if (read.model.rotary_dim() < 4) {
    read.fields.fail("rope_type", "'dynamic' needs heads with at least 4 rotated channels, not " +
                                      std::to_string(read.model.rotary_dim()));
  }
}

/// yarn's factor of cos and sin for an extension by `factor`.
double yarn_scale(double factor, double weight) {
  return factor <= 1.0 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

double yarn_attention_factor(const Reading& read, double factor) {
  const auto given = read.fields.positive("attention_factor", kMaxFactor);
  const auto weight = read.fields.positive("mscale", kMaxFactor);
  const auto weight_all = read.fields.positive("mscale_all_dim", kMaxFactor);
  if (given) return *given;
  if (!weight || !weight_all) return yarn_scale(factor, 1.0);
  return yarn_scale(factor, *weight) / yarn_scale(factor, *weight_all);
}

void read_yarn(const Reading& read, RotaryConfig& rotary) {
  rotary.factor = required_factor(read);
  rotary.original_max_position_embeddings =
      original_positions(read).value_or(read.model.max_position_embeddings);
  rotary.attention_factor = yarn_attention_factor(read, rotary.factor);
  rotary.beta_fast = read.fields.positive("beta_fast", kMaxFactor).value_or(rotary.beta_fast);
  rotary.beta_slow = read.fields.positive("beta_slow", kMaxFactor).value_or(rotary.beta_slow);
  // A null is not the default here: Python treats it as false.
  rotary.truncate = read.fields.boolean("truncate", !read.fields.contains("truncate"));
  if (rotary.beta_fast < rotary.beta_slow) {
    read.fields.fail("beta_fast",
                     shown(rotary.beta_fast) + " is below beta_slow, " + shown(rotary.beta_slow));
  }
  if (rotary.theta <= 1.0) {
    read.config.fail("rope_theta", shown(rotary.theta) + " is not above 1, as yarn needs it");
  }
}

double longrope_attention_factor(const Reading& read, const RotaryConfig& rotary) {
  if (const auto given = read.fields.positive("attention_factor", kMaxFactor)) return *given;
  if (rotary.factor <= 1.0) return 1.0;
  const auto original = static_cast<double>(rotary.original_max_position_embeddings);
  if (original < 2.0) read.fields.fail(kOriginalPositions, "1 is too few; at least 2 are needed");
  return std::sqrt(1.0 + std::log(rotary.factor) / std::log(original));
}

void read_longrope(const Reading& read, RotaryConfig& rotary) {
  const int64_t pairs = read.model.rotary_dim() / 2;
  rotary.short_factor = read.fields.required_positives("short_factor", pairs, kMaxFactor);
  rotary.long_factor = read.fields.required_positives("long_factor", pairs, kMaxFactor);
  rotary.original_max_position_embeddings =
      original_positions(read).value_or(read.model.max_position_embeddings);
  const auto given = read.fields.positive("factor", kMaxFactor);
  if (given) require_at_least_1(read, "factor", *given);
  rotary.factor = given.value_or(static_cast<double>(read.model.max_position_embeddings) /
                                 static_cast<double>(rotary.original_max_position_embeddings));
  rotary.attention_factor = longrope_attention_factor(read, rotary);
}

void read_llama3(const Reading& read, RotaryConfig& rotary) {
  rotary.factor = required_factor(read);
  rotary.low_freq_factor = read.fields.required_positive("low_freq_factor", kMaxFactor);
  rotary.high_freq_factor = read.fields.required_positive("high_freq_factor", kMaxFactor);
  const auto original = original_positions(read);
  if (!original) read.fields.fail(kOriginalPositions, "is missing");
  rotary.original_max_position_embeddings = *original;
  if (rotary.high_freq_factor <= rotary.low_freq_factor) {
    read.fields.fail("high_freq_factor", shown(rotary.high_freq_factor) +
                                             " is not above low_freq_factor, " +
                                             shown(rotary.low_freq_factor));
  }
}

void read_default(const Reading&, RotaryConfig&) {}

struct RotaryType {
  std::string_view name;
  void (*read)(const Reading&, RotaryConfig&);
};

constexpr std::array kRotaryTypes = {
    RotaryType{"default", read_default},   RotaryType{"linear", read_linear},
    RotaryType{"dynamic", read_dynamic},   RotaryType{"yarn", read_yarn},
    RotaryType{"longrope", read_longrope}, RotaryType{"llama3", read_llama3}};

std::string read_type_name(const Reading& read, const char* key, const std::string& otherwise) {
  const std::string name = read.fields.text(key).value_or(otherwise);
  const bool old_name = name == "su" || name == "yarn";
  return old_name && read.family.rotary_is_default_or_longrope ? "longrope" : name;
}

const RotaryType& read_type(const Reading& read) {
  const std::string old = read_type_name(read, "type", "default");
  const std::string name = read_type_name(read, "rope_type", old);
  if (read.fields.has("type") && name != old) {
    read.fields.fail("type", "'" + old + "' contradicts rope_type, '" + name + "'");
  }
  if (read.family.rotary_is_default_or_longrope && name != "default" && name != "longrope") {
    read.fields.fail("rope_type",
                     "'" + name + "' is refused, as transformers does for the family " +
                         read.family.model_type + "; default and longrope are supported");
  }
  const auto* const found = std::find_if(kRotaryTypes.begin(), kRotaryTypes.end(),
                                         [&](const RotaryType& type) { return type.name == name; });
  if (found == kRotaryTypes.end()) {
    std::string names;
    for (const RotaryType& type : kRotaryTypes) {
      names += (names.empty() ? "" : ", ") + std::string(type.name);
    }
    read.fields.fail("rope_type", "'" + name + "' is not supported; " + names + " are");
  }
  return *found;
}

/// Reads the settings that both dialects keep in one object.
RotaryConfig read_scaling(const Reading& read, double theta) {
  RotaryConfig rotary;
  rotary.theta = theta;
  rotary.partial_factor = read.model.attention.rotary.partial_factor;
  const RotaryType& type = read_type(read);
  rotary.type = type.name;
  type.read(read, rotary);
  return rotary;
}

std::optional<RotaryConfig> read_version5(const ConfigFields& config, const ModelFamily& family,
                                          const ModelConfig& model) {
  const auto parameters = config.object("rope_parameters");
  if (!parameters) return std::nullopt;
  if (parameters->has("full_attention") || parameters->has("sliding_attention")) {
    config.fail("rope_parameters", "settings by layer type are not supported");
  }
  const auto outside = config.positive("rope_theta", kMaxTheta);
  const auto theta = parameters->positive("rope_theta", kMaxTheta);
  return read_scaling({*parameters, config, family, model},
                      theta ? *theta : outside.value_or(model.attention.rotary.theta));
}

std::optional<RotaryConfig> read_version4(const ConfigFields& config, const ModelFamily& family,
                                          const ModelConfig& model) {
  const auto theta = config.positive("rope_theta", kMaxTheta);
  const auto scaling = config.object("rope_scaling");
  if (scaling) {
    return read_scaling({*scaling, config, family, model},
                        theta.value_or(model.attention.rotary.theta));
  }
  if (!theta) return std::nullopt;
  RotaryConfig rotary = model.attention.rotary;
  rotary.theta = *theta;
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

void check_partial_factor(const ConfigFields& config, const ModelFamily& family,
                          const ModelConfig& model) {
  if (model.attention.rotary.partial_factor == 1.0) return;
  if (!family.offers_partial_rotary) {
    config.fail("partial_rotary_factor",
                "only 1.0 is supported for the family " + family.model_type);
  }
  if (model.rotary_dim() < 2 || model.rotary_dim() % 2 != 0) {
    config.fail("partial_rotary_factor", "gives " + std::to_string(model.rotary_dim()) +
                                             " rotated channels of " +
                                             std::to_string(model.attention.head_dim) +
                                             "; an even number above 0 is needed");
  }
}

}  // namespace

void read_rotary_config(const ConfigFields& config, const ModelFamily& family, ModelConfig& model) {
  model.attention.rotary = RotaryConfig{};
  model.attention.rotary.theta = family.rope_theta_if_absent;
  model.attention.rotary.partial_factor = read_partial_factor(config);
  check_partial_factor(config, family, model);
  const auto version5 = read_version5(config, family, model);
  const auto version4 = read_version4(config, family, model);
  if (version5 && version4 && *version5 != *version4) {
    config.fail("rope_parameters", "contradicts rope_theta and rope_scaling");
  }
  model.attention.rotary = version5 ? *version5 : version4.value_or(model.attention.rotary);
}

}  // namespace dotresize
