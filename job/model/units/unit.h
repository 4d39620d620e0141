#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "job/model/model_config.h"

namespace dotresize {

/// Names of a unit's sizes in report.json (docs/output.md).
struct UnitReportKeys {
  const char* left = nullptr;    ///< in an entry of `mlps` or `attentions`: the size that is left
  const char* source = nullptr;  ///< beside it: the size in the source
  const char* all = nullptr;     ///< in `allocation`: the list of all sizes that are left
};

/// Part of a sublayer that can be had in several sizes. Each has a row in unit.cpp, and a file in
/// worker/calibration/units/ that cuts it.
struct Unit {
  std::string_view name;       ///< "features"
  bool of_attentions = false;  ///< a part of an attention, else of an MLP
  bool in_stock = true;        ///< a stock config can state another size
  const char* key = nullptr;   ///< list in config.json: the size in each layer
  UnitReportKeys report;
  std::string_view parts;  ///< what the size counts, for messages
  /// True if layers of the model have the unit, and outputs can state a size for each.
  bool (*in_model)(const ModelConfig& config) = nullptr;
  /// Number of parts in the layer. 0: the layer has no such sublayer.
  int64_t (*size)(const LayerSpec& layer) = nullptr;
  void (*set_size)(int64_t size, LayerSpec& layer) = nullptr;
  /// Fewest parts that a config may state for the layer: 0 of the first unit of a sublayer, unless
  /// it adds a bias to the stream.
  int64_t (*least)(const LayerSpec& layer) = nullptr;
  /// Divisor of every size that a config may state for the layer. Null: 1.
  int64_t (*divisor)(const LayerSpec& layer) = nullptr;
  /// Returns the sizes that a layer can be cut to, descending: all, and those that `round_to`
  /// allows. 0 is not listed.
  std::vector<int64_t> (*sizes)(const LayerSpec& layer, int64_t round_to) = nullptr;

  bool is_in(int64_t sublayer) const { return is_attention(sublayer) == of_attentions; }
  /// Number of parts in the sublayer, which the unit must be in.
  int64_t size_in(const ModelConfig& config, int64_t sublayer) const {
    return size(config.layers.at(static_cast<std::size_t>(layer_of(sublayer))));
  }
};

/// Features of an MLP, or of each expert of a mixture.
extern const Unit kFeatures;
/// Experts of a mixture, without the shared one.
extern const Unit kExperts;
/// Channels of the value heads of an attention.
extern const Unit kValueChannels;

/// All units. The first one of a kind of sublayer states that the sublayer is gone, by size 0.
inline constexpr std::array kUnits = {&kFeatures, &kExperts, &kValueChannels};

/// Returns `all`, then the multiples of `step` below it, descending, without 0.
std::vector<int64_t> sizes_in_steps(int64_t all, int64_t step);

/// The first unit of the sublayer's kind.
const Unit& main_unit(int64_t sublayer);

/// Returns a unit whose size in `cut` is smaller than in `dense`, or null if the sublayer is whole.
const Unit* cut_unit(const LayerSpec& dense, const LayerSpec& cut, int64_t sublayer);

}  // namespace dotresize
