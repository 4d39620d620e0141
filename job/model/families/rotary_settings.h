#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "job/model/config_fields.h"
#include "job/model/model_config.h"

namespace dotresize {

/// Particulars of a family's rotary settings.
struct RotaryRules {
  double theta_if_absent = 1e4;
  double sliding_theta_if_absent = 1e4;  ///< layers with a window, in a model with two kinds
  bool offers_partial = false;           ///< a fraction of each head's channels may be rotated
  double partial_if_absent = 1.0;        ///< this fraction
  bool interleaved = false;              ///< RotaryConfig::interleaved
  bool offers_alpha = false;             ///< the type dynamic may have an alpha
  bool scales_queries = false;           ///< RotaryConfig::query_beta; the type must be yarn
  /// The configuration class refuses types other than default and longrope (also spelled su and
  /// yarn).
  bool is_default_or_longrope = false;
  /// Absent: read from the rotary settings, else max_position_embeddings.
  std::optional<int64_t> original_positions_if_absent = std::nullopt;
};

/// Sets `model.rotaries` to the one embedding of a config.json in either dialect:
/// `rope_parameters` (transformers 5), or `rope_theta`, `rope_scaling` and `partial_rotary_factor`
/// (transformers 4). Both may be present if they agree. Absent values get transformers 5's
/// defaults. All heads of `model` must have the same head_dim. Throws InputError for unsupported
/// types, values out of range and contradictory values.
void read_rotary(const ConfigFields& config, const RotaryRules& rules, ModelConfig& model);

/// The same for a model whose layers with a sliding window rotate in another way: `model.rotaries`
/// are those of layers without a window and with one. transformers 5 has an object for each type of
/// layers in `rope_parameters`, transformers 4 the second one's theta in `rope_local_base_freq`.
void read_rotaries_by_layer_type(const ConfigFields& config, const RotaryRules& rules,
                                 ModelConfig& model);

// Settings of an output. They state every value, derived ones too: transformers 4 and 5 derive some
// differently.

/// Returns true if an output states the rotated fraction: also 1 where an absent one is another.
bool states_partial(const RotaryConfig& rotary);
/// Returns true for a longrope whose factors follow from the lengths of the context.
bool is_derived_longrope(const RotaryConfig& rotary, int64_t max_position_embeddings);
/// `rope_scaling` of transformers 4.
nlohmann::json rotary_scaling(const RotaryConfig& rotary);
/// `rope_parameters` of transformers 5.
nlohmann::json rotary_parameters(const RotaryConfig& rotary);
/// The same by type of layer, for models of read_rotaries_by_layer_type().
nlohmann::json parameters_by_layer_type(const ModelConfig& model);

}  // namespace dotresize
