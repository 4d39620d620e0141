#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "job/model/config_fields.h"
#include "job/model/read_model_config.h"
#include "job/model/units/unit.h"

namespace dotresize {
namespace {

using nlohmann::json;

std::vector<int64_t> read_junction_widths(const ConfigFields& fields, const ModelConfig& config) {
  const auto count = static_cast<std::size_t>(config.num_junctions());
  const json& widths = fields.raw("junction_widths");
  if (!widths.is_array() || widths.size() != count) {
    fields.fail("junction_widths", "must be a list of " + std::to_string(count) +
                                       " widths, two per layer and one more");
  }
  std::vector<int64_t> result;
  for (const json& width : widths) {
    result.push_back(fields.required_integer("junction_widths", width, 1, config.hidden_size));
  }
  return result;
}

/// Reads the projections between a compressed model's shared table and the stream.
void read_projections(const ConfigFields& fields, ModelConfig& config) {
  const auto read = [&](const char* key, int64_t width) {
    const bool given = fields.boolean(key, false);
    if (given && !config.tie_word_embeddings) {
      fields.fail(key, "is true, but tie_word_embeddings is false: there is no common table");
    }
    if (!given && config.tie_word_embeddings && width != config.hidden_size) {
      fields.fail(key, "is false, but the junction is " + std::to_string(width) +
                           " wide, and the common table hidden_size, " +
                           std::to_string(config.hidden_size));
    }
    return given;
  };
  config.form.embedding_projection =
      read("embedding_projection", config.form.junction_widths.front());
  config.form.head_projection = read("head_projection", config.form.junction_widths.back());
}

bool read_norm_weights(const ConfigFields& fields, const ModelConfig& config) {
  if (!fields.boolean("norm_weights", false)) return false;
  const bool whole = std::ranges::all_of(
      config.form.junction_widths, [&](int64_t width) { return width == config.hidden_size; });
  if (!whole) fields.fail("norm_weights", "is true, but there are junctions of less width");
  if (config.form.embedding_projection || config.form.head_projection) {
    fields.fail("norm_weights", "is true, so there is no map and no projection to one");
  }
  return true;
}

std::vector<int64_t> read_junction_groups(const ConfigFields& fields, const ModelConfig& config) {
  if (!fields.has("junction_groups")) return {};
  const json& groups = fields.raw("junction_groups");
  const std::vector<int64_t>& widths = config.form.junction_widths;
  if (!groups.is_array() || groups.size() != widths.size()) {
    fields.fail("junction_groups", "must be a list of " + std::to_string(widths.size()) +
                                       " numbers, two per layer and one more");
  }
  std::vector<int64_t> result;
  for (const json& group : groups) {
    const int64_t least = result.empty() ? 0 : result.back();
    result.push_back(fields.required_integer("junction_groups", group, least, kMaxLayers * 2));
    const std::size_t junction = result.size() - 1;
    if (junction > 0 && result[junction] == least && widths[junction] != widths[junction - 1]) {
      fields.fail("junction_groups", "puts the widths " + std::to_string(widths[junction - 1]) +
                                         " and " + std::to_string(widths[junction]) +
                                         " into one group");
    }
  }
  return result;
}

std::vector<ShortcutForm> read_shortcuts(const ConfigFields& fields, const ModelConfig& config) {
  constexpr const char* kRanks = "shortcut_ranks";
  if (!fields.has(kRanks)) return {};
  const json& ranks = fields.raw(kRanks);
  const auto count = static_cast<std::size_t>(config.num_sublayers());
  if (!ranks.is_array() || ranks.size() != count) {
    fields.fail(kRanks, "must be a list of " + std::to_string(count) +
                            " ranks, two per layer; null for a shortcut that is one matrix");
  }
  const int64_t factors = fields.required_integer("shortcut_factors", 1, 2);
  std::vector<ShortcutForm> result;
  for (const json& rank : ranks) {
    const std::size_t in = result.size();
    const int64_t least =
        std::min(config.form.junction_widths[in], config.form.junction_widths[in + 1]);
    const bool shared = in_one_group(config.form.junction_groups, std::ssize(result));
    if (!rank.is_null()) {
      const int64_t most = shared ? 0 : least;
      result.push_back({fields.required_integer(kRanks, rank, 0, most), factors});
    } else if (!shared) {
      result.push_back({.factors = factors});
    } else {
      fields.fail(kRanks, "is null within a group, whose shortcuts are the identity; 0 is needed");
    }
  }
  return result;
}

/// Reads the list of the unit's sizes, with one number per layer. Each replaces the size in the
/// layer, which it does not exceed. Returns false if the key is absent.
bool read_sizes(const ConfigFields& fields, const Unit& unit, ModelConfig& config) {
  if (!fields.has(unit.key)) return false;
  const json& sizes = fields.raw(unit.key);
  if (!sizes.is_array() || std::ssize(sizes) != config.num_layers()) {
    fields.fail(unit.key, "must be a list of num_hidden_layers, " +
                              std::to_string(config.num_layers()) + ", numbers of " +
                              std::string(unit.parts));
  }
  int64_t sublayer = unit.of_attentions ? 0 : 1;
  for (const json& given : sizes) {
    LayerSpec& layer = config.layers[static_cast<std::size_t>(layer_of(sublayer))];
    const int64_t size =
        fields.required_integer(unit.key, given, unit.least(layer), unit.size(layer));
    const int64_t divisor = unit.divisor == nullptr ? 1 : unit.divisor(layer);
    if (size % divisor != 0) {
      fields.fail(unit.key, std::to_string(size) + " is not a multiple of " +
                                std::to_string(divisor) + ", as layer " +
                                std::to_string(layer_of(sublayer)) + " needs");
    }
    unit.set_size(size, layer);
    sublayer += 2;
  }
  return true;
}

}  // namespace

void read_narrow_form(const ConfigFields& fields, ModelConfig& config) {
  if (!config.compressed) {
    config.form.junction_widths.assign(static_cast<std::size_t>(config.num_junctions()),
                                       config.hidden_size);
    for (const Unit* unit : kUnits) {
      if (unit->in_stock || !fields.has(unit->key)) continue;
      fields.fail(unit->key, "a model of the family " + config.family + " has all " +
                                 std::string(unit->parts) +
                                 " in every layer; one of model_type dotresize may have fewer");
    }
    return;
  }
  config.form.junction_widths = read_junction_widths(fields, config);
  read_projections(fields, config);
  config.form.norm_weights = read_norm_weights(fields, config);
  config.form.junction_groups = read_junction_groups(fields, config);
  config.form.shortcuts = read_shortcuts(fields, config);
  for (const Unit* unit : kUnits) {
    if (read_sizes(fields, *unit, config)) config.form.sizes_by_layer = true;
  }
}

}  // namespace dotresize
