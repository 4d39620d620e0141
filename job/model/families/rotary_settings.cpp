#include "job/model/families/rotary_settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

namespace dotresize {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr const char* kOriginalPositions = "original_max_position_embeddings";
constexpr const char* kQueryBeta = "llama_4_scaling_beta";

/// Inputs for reading the settings of one dialect.
struct Reading {
  const ConfigFields& fields;  ///< rope_parameters or rope_scaling
  const ConfigFields& config;  ///< the whole file
  const RotaryRules& rules;
  const ModelConfig& model;
  const RotaryConfig& start;  ///< what is known before the settings are read
};

std::string shown(double number) { return nlohmann::json(number).dump(); }

double required_factor(const Reading& read) {
  const double factor = read.fields.required_positive("factor", kMaxFactor);
  if (factor < 1.0) read.fields.fail("factor", shown(factor) + " is below 1");
  return factor;
}

/// Reads original_max_position_embeddings. transformers 5 prefers the value outside the rotary
/// settings. transformers 4 uses only that one for longrope, and never uses it for yarn and llama3.
/// So both values must agree.
std::optional<int64_t> original_positions(const Reading& read) {
  read.fields.refuse_null(kOriginalPositions);
  const auto inside = read.fields.integer(kOriginalPositions, 1, kMaxPositions);
  auto outside = read.config.integer(kOriginalPositions, 1, kMaxPositions);
  if (!outside) outside = read.rules.original_positions_if_absent;
  if (inside && outside && *inside != *outside) {
    read.fields.fail(
        kOriginalPositions,
        std::to_string(*inside) + " contradicts that of the model, " + std::to_string(*outside));
  }
  return outside ? outside : inside;
}

void read_dynamic(const Reading& read, RotaryConfig& rotary) {
  rotary.factor = required_factor(read);
  if (read.rules.offers_alpha) {
    rotary.alpha = read.fields.positive("alpha", kMaxFactor).value_or(0.0);
  }
  if (rotary.channels < 4) {
    read.fields.fail("rope_type", "'dynamic' needs heads with at least 4 rotated channels, not " +
                                      std::to_string(rotary.channels));
  }
}

void read_yarn(const Reading& read, RotaryConfig& rotary) {
  rotary.factor = required_factor(read);
  rotary.original_max_position_embeddings =
      original_positions(read).value_or(read.model.max_position_embeddings);
  const auto given = read.fields.positive("attention_factor", kMaxFactor);
  // A weight of 0 counts as absent.
  const double weight = read.fields.number("mscale", 0.0, kMaxFactor).value_or(0.0);
  const double weight_all = read.fields.number("mscale_all_dim", 0.0, kMaxFactor).value_or(0.0);
  const auto scale = [&](double of_weight) {  // factor of cos and sin
    return rotary.factor <= 1.0 ? 1.0 : 0.1 * of_weight * std::log(rotary.factor) + 1.0;
  };
  const bool weighted = weight > 0.0 && weight_all > 0.0;
  rotary.attention_factor = given      ? *given
                            : weighted ? scale(weight) / scale(weight_all)
                                       : scale(1.0);
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

/// Factor of cos and sin that follows from the extension of the context.
double longrope_scale(double factor, double original) {
  return factor > 1.0 ? std::sqrt(1.0 + std::log(factor) / std::log(original)) : 1.0;
}

void read_longrope(const Reading& read, RotaryConfig& rotary) {
  const int64_t pairs = rotary.channels / 2;
  rotary.short_factor = read.fields.required_positives("short_factor", pairs, kMaxFactor);
  rotary.long_factor = read.fields.required_positives("long_factor", pairs, kMaxFactor);
  rotary.original_max_position_embeddings =
      original_positions(read).value_or(read.model.max_position_embeddings);
  const auto given = read.fields.positive("factor", kMaxFactor);
  if (given && *given < 1.0) read.fields.fail("factor", shown(*given) + " is below 1");
  const auto original = static_cast<double>(rotary.original_max_position_embeddings);
  rotary.factor =
      given.value_or(static_cast<double>(read.model.max_position_embeddings) / original);
  if (const auto scale = read.fields.positive("attention_factor", kMaxFactor)) {
    rotary.attention_factor = *scale;
  } else {
    if (rotary.factor > 1.0 && original < 2.0) {
      read.fields.fail(kOriginalPositions, "1 is too few; at least 2 are needed");
    }
    rotary.attention_factor = longrope_scale(rotary.factor, original);
  }
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

struct RotaryType {
  std::string_view name;
  void (*read)(const Reading&, RotaryConfig&);
};

constexpr std::array kRotaryTypes = {
    RotaryType{"default", [](const Reading&, RotaryConfig&) {}},
    RotaryType{"linear", [](const Reading& read,
                            RotaryConfig& rotary) { rotary.factor = required_factor(read); }},
    RotaryType{"dynamic", read_dynamic},
    RotaryType{"yarn", read_yarn},
    RotaryType{"longrope", read_longrope},
    RotaryType{"llama3", read_llama3}};

/// Reads the settings that both dialects keep in one object.
RotaryConfig read_scaling(const Reading& read, double theta) {
  const auto name_of = [&](const char* key, const std::string& otherwise) {
    const std::string name = read.fields.text(key).value_or(otherwise);
    const bool old_name = name == "su" || name == "yarn";
    return old_name && read.rules.is_default_or_longrope ? "longrope" : name;
  };
  read.fields.refuse_null("rope_type");
  if (!read.fields.has("rope_type")) read.fields.refuse_null("type");
  read.fields.refuse_null("rope_theta");
  const std::string old = name_of("type", "default");
  const std::string name = name_of("rope_type", old);
  if (read.fields.has("type") && name != old) {
    read.fields.fail("type", "'" + old + "' contradicts rope_type, '" + name + "'");
  }
  if (read.rules.is_default_or_longrope && name != "default" && name != "longrope") {
    read.fields.fail("rope_type", "'" + name +
                                      "' is refused, as transformers does for the family " +
                                      read.model.family + "; default and longrope are supported");
  }
  const auto* const found = std::ranges::find(kRotaryTypes, name, &RotaryType::name);
  if (found == kRotaryTypes.end()) {
    std::string names;
    for (const RotaryType& type : kRotaryTypes) {
      names += (names.empty() ? "" : ", ") + std::string(type.name);
    }
    read.fields.fail("rope_type", "'" + name + "' is not supported; " + names + " are");
  }
  RotaryConfig rotary = read.start;
  rotary.theta = theta;
  rotary.type = name;
  found->read(read, rotary);
  if (read.rules.scales_queries) {
    if (name != "yarn") read.fields.fail("rope_type", "'" + name + "' is refused; yarn is needed");
    rotary.query_beta = read.fields.number(kQueryBeta, 0.0, kMaxFactor);
    if (!rotary.query_beta) read.fields.fail(kQueryBeta, "is missing");
  }
  return rotary;
}

void refuse_settings_by_layer_type(const char* key, const ConfigFields& settings,
                                   const ConfigFields& config) {
  if (settings.contains("full_attention") || settings.contains("sliding_attention")) {
    config.fail(key, "settings by layer type are not supported");
  }
}

std::optional<RotaryConfig> read_version5(const ConfigFields& config, const RotaryRules& rules,
                                          const ModelConfig& model, const RotaryConfig& start) {
  const auto parameters = config.object("rope_parameters");
  if (!parameters) return std::nullopt;
  refuse_settings_by_layer_type("rope_parameters", *parameters, config);
  const auto outside = config.positive("rope_theta", kMaxTheta);
  const auto theta = parameters->positive("rope_theta", kMaxTheta);
  return read_scaling({*parameters, config, rules, model, start},
                      theta ? *theta : outside.value_or(start.theta));
}

std::optional<RotaryConfig> read_version4(const ConfigFields& config, const RotaryRules& rules,
                                          const ModelConfig& model, const RotaryConfig& start) {
  const auto theta = config.positive("rope_theta", kMaxTheta);
  const auto scaling = config.object("rope_scaling");
  if (scaling) {
    refuse_settings_by_layer_type("rope_scaling", *scaling, config);
    // transformers 5 prefers the value inside; transformers 4 reads only the one outside.
    const auto inside = scaling->positive("rope_theta", kMaxTheta);
    if (inside && theta && *inside != *theta) {
      config.fail("rope_scaling",
                  "rope_theta " + shown(*inside) + " contradicts the one outside, " +
                      shown(*theta) +
                      ": transformers 5 takes the first, transformers 4 the "
                      "second; give both the value that the model was trained with");
    }
    return read_scaling({*scaling, config, rules, model, start},
                        inside ? *inside : theta.value_or(start.theta));
  }
  if (!theta) return std::nullopt;
  RotaryConfig rotary = start;
  rotary.theta = *theta;
  return rotary;
}

/// Reads the rotated fraction of a head's channels into `rotary`.
void read_partial_factor(const ConfigFields& config, const RotaryRules& rules,
                         const ModelConfig& model, RotaryConfig& rotary) {
  constexpr const char* kPartial = "partial_rotary_factor";
  const auto version4 = config.positive(kPartial, 1.0);
  const auto parameters = config.object("rope_parameters");
  const auto scaling = config.object("rope_scaling");
  const auto within = [&](const std::optional<ConfigFields>& settings) {
    if (settings) settings->refuse_null(kPartial);
    return settings ? settings->positive(kPartial, 1.0) : std::nullopt;
  };
  const auto of_parameters = within(parameters);
  const auto of_scaling = within(scaling);
  // transformers 5 takes the whole of rope_scaling in place of rope_parameters.
  if (parameters && !config.raw("rope_scaling").empty() &&
      of_parameters.value_or(version4.value_or(rules.partial_if_absent)) !=
          of_scaling.value_or(version4.value_or(rules.partial_if_absent))) {
    config.fail("rope_scaling", "partial_rotary_factor contradicts that of rope_parameters");
  }
  const auto version5 = of_parameters ? of_parameters : of_scaling;
  if (version4 && version5 && *version4 != *version5) {
    config.fail("partial_rotary_factor", "contradicts that of rope_parameters");
  }
  const int64_t head_dim = model.layers.front().attention.head_dim;
  rotary.partial_if_absent = rules.partial_if_absent;
  rotary.partial_factor = version5.value_or(version4.value_or(rules.partial_if_absent));
  rotary.channels = static_cast<int64_t>(static_cast<double>(head_dim) * rotary.partial_factor);
  if (rotary.partial_factor == 1.0) return;
  if (!rules.offers_partial) {
    config.fail("partial_rotary_factor", "only 1.0 is supported for the family " + model.family);
  }
  if (rotary.channels < 2 || rotary.channels % 2 != 0) {
    config.fail("partial_rotary_factor", "gives " + std::to_string(rotary.channels) +
                                             " rotated channels of " + std::to_string(head_dim) +
                                             "; an even number above 0 is needed");
  }
}

[[noreturn]] void fail_contradiction(const ConfigFields& config) {
  config.fail(
      "rope_parameters",
      "contradicts rope_theta and rope_scaling, which transformers 4 reads; make both say the "
      "same, or remove one of the two");
}

}  // namespace

void read_rotary(const ConfigFields& config, const RotaryRules& rules, ModelConfig& model) {
  RotaryConfig start;
  start.theta = rules.theta_if_absent;
  start.interleaved = rules.interleaved;
  // Every config of such a family has it, whatever its rotary type.
  if (rules.original_positions_if_absent) config.note({kOriginalPositions});
  read_partial_factor(config, rules, model, start);
  const auto version5 = read_version5(config, rules, model, start);
  const auto scaling = config.object("rope_scaling");
  if (!version5 && !(scaling && scaling->has("rope_theta"))) config.refuse_null("rope_theta");
  const auto version4 = read_version4(config, rules, model, start);
  if (version5 && version4 && *version5 != *version4) fail_contradiction(config);
  model.rotaries = {version5 ? *version5 : version4.value_or(start)};
}

void read_rotaries_by_layer_type(const ConfigFields& config, const RotaryRules& rules,
                                 ModelConfig& model) {
  RotaryConfig start;
  start.theta = rules.theta_if_absent;
  read_partial_factor(config, rules, model, start);
  std::optional<RotaryConfig> full = read_version4(config, rules, model, start);
  start.theta = rules.sliding_theta_if_absent;
  std::optional<RotaryConfig> sliding;
  if (const auto theta = config.positive("rope_local_base_freq", kMaxTheta)) {
    sliding = start;
    sliding->theta = *theta;
  }
  const auto scaling = config.object("rope_scaling");
  if (scaling && scaling->has("type") && !scaling->has("rope_type")) {
    scaling->fail("type",
                  "is a name that transformers 5 does not look for in this family; call the "
                  "key rope_type");
  }
  const auto read_type = [&](const ConfigFields& parameters, const char* type, double if_absent,
                             std::optional<RotaryConfig>& known) {
    const auto of_type = parameters.object(type);
    if (!of_type) config.fail("rope_parameters", std::string(type) + " is missing");
    const double theta = of_type->positive("rope_theta", kMaxTheta).value_or(if_absent);
    const RotaryConfig version5 = read_scaling({*of_type, config, rules, model, start}, theta);
    if (known && *known != version5) fail_contradiction(config);
    known = version5;
  };
  if (const auto parameters = config.object("rope_parameters")) {
    read_type(*parameters, "full_attention", full ? full->theta : rules.theta_if_absent, full);
    read_type(*parameters, "sliding_attention", sliding ? sliding->theta : start.theta, sliding);
  }
  RotaryConfig otherwise = start;
  otherwise.theta = rules.theta_if_absent;
  model.rotaries = {full.value_or(otherwise), sliding.value_or(start)};
  for (const RotaryConfig& rotary : model.rotaries) {
    if (rotary.type != "yarn" || rotary.truncate) continue;
    config.fail(scaling ? "rope_scaling" : "rope_parameters",
                "truncate is false, which transformers 4 computes and transformers 5 does not in "
                "this family; only true is supported");
  }
}

nlohmann::json rotary_scaling(const RotaryConfig& rotary) {
  nlohmann::json scaling = {{"rope_type", rotary.type}};
  if (rotary.type == "default") return scaling;
  scaling["factor"] = rotary.factor;
  if (rotary.alpha != 0.0) scaling["alpha"] = rotary.alpha;
  if (rotary.type == "linear" || rotary.type == "dynamic") return scaling;
  scaling[kOriginalPositions] = rotary.original_max_position_embeddings;
  if (rotary.type == "llama3") {
    scaling["low_freq_factor"] = rotary.low_freq_factor;
    scaling["high_freq_factor"] = rotary.high_freq_factor;
    return scaling;
  }
  scaling["attention_factor"] = rotary.attention_factor;
  if (rotary.query_beta) scaling[kQueryBeta] = *rotary.query_beta;
  if (rotary.type == "yarn") {
    scaling["beta_fast"] = rotary.beta_fast;
    scaling["beta_slow"] = rotary.beta_slow;
    scaling["truncate"] = rotary.truncate;
  } else {
    scaling["short_factor"] = rotary.short_factor;
    scaling["long_factor"] = rotary.long_factor;
  }
  return scaling;
}

bool is_derived_longrope(const RotaryConfig& rotary, int64_t max_position_embeddings) {
  if (rotary.type != "longrope") return false;
  const auto original = static_cast<double>(rotary.original_max_position_embeddings);
  return rotary.factor == static_cast<double>(max_position_embeddings) / original &&
         rotary.attention_factor == longrope_scale(rotary.factor, original);
}

bool states_partial(const RotaryConfig& rotary) {
  return rotary.partial_factor != 1.0 || rotary.partial_if_absent != 1.0;
}

nlohmann::json rotary_parameters(const RotaryConfig& rotary) {
  nlohmann::json parameters = rotary_scaling(rotary);
  parameters["rope_theta"] = rotary.theta;
  if (states_partial(rotary)) parameters["partial_rotary_factor"] = rotary.partial_factor;
  return parameters;
}

nlohmann::json parameters_by_layer_type(const ModelConfig& model) {
  return {{"full_attention", rotary_parameters(model.rotaries.at(0))},
          {"sliding_attention", rotary_parameters(model.rotaries.at(1))}};
}

}  // namespace dotresize
