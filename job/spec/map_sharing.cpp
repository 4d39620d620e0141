#include "job/spec/map_sharing.h"

namespace dotresize {

std::optional<MapSharing> parse_map_sharing(const std::string& text) {
  if (text.empty() || text == "junction") return MapSharing::kJunction;
  if (text == "model") return MapSharing::kModel;
  return std::nullopt;
}

std::string to_string(MapSharing sharing) {
  return sharing == MapSharing::kModel ? "model" : "junction";
}

}  // namespace dotresize
