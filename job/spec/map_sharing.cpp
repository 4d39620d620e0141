#include "job/spec/map_sharing.h"

#include <algorithm>

#include "base/parse_number.h"

namespace dotresize {

std::optional<MapSharing> parse_map_sharing(const std::string& text) {
  if (text.empty() || text == "junction") return MapSharing{};
  if (text == "model") return MapSharing{MapSharing::Kind::kModel, 0};
  const auto groups = parse_number<uint32_t>(text);
  if (groups.value_or(0) == 0) return std::nullopt;
  return MapSharing{MapSharing::Kind::kGroups, *groups};
}

std::string to_string(const MapSharing& sharing) {
  switch (sharing.kind) {
    case MapSharing::Kind::kModel:
      return "model";
    case MapSharing::Kind::kGroups:
      return std::to_string(sharing.groups);
    default:
      return "junction";
  }
}

std::vector<int64_t> make_junction_groups(int64_t groups, int64_t mapped, int64_t junctions) {
  std::vector<int64_t> group_of;
  for (int64_t junction = 0; junction < junctions; ++junction) {
    group_of.push_back(std::min(junction, mapped) * groups / mapped);
  }
  return group_of;
}

}  // namespace dotresize
