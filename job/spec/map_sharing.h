#pragma once

#include <optional>
#include <string>

namespace dotresize {

/// `method.map_sharing`: the junctions that share one map (method.md, "Sharing maps").
enum class MapSharing {
  kJunction,  ///< each junction has its own map
  kModel,     ///< all share one map, the last junction included: a stock output
};

/// Parses "junction", "" (the same) or "model"; nullopt for any other text.
inline std::optional<MapSharing> parse_map_sharing(const std::string& text) {
  if (text.empty() || text == "junction") return MapSharing::kJunction;
  if (text == "model") return MapSharing::kModel;
  return std::nullopt;
}

/// Returns "junction" or "model".
inline std::string to_string(MapSharing sharing) {
  return sharing == MapSharing::kModel ? "model" : "junction";
}

}  // namespace dotresize
