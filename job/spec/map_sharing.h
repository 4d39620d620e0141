#pragma once

#include <optional>
#include <string>

namespace dotresize {

/// `method.map_sharing`: which junctions get one map together (method.md, "Sharing maps").
enum class MapSharing {
  kJunction,  ///< each has its own
  kModel,     ///< all have one, the last junction included: the output is a stock model
};

/// "junction" (or nothing) or "model"; anything else: no value.
std::optional<MapSharing> parse_map_sharing(const std::string& text);

/// The field's own spelling.
std::string to_string(MapSharing sharing);

}  // namespace dotresize
