#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dotresize {

/// `method.map_sharing`: which junctions get one map together (method.md, "Sharing maps").
struct MapSharing {
  enum class Kind {
    kJunction,  ///< each has its own
    kModel,     ///< all have one, the last junction included: the output is a stock model
    kGroups,    ///< `groups` runs of neighbouring junctions have one each
  };
  Kind kind = Kind::kJunction;
  int64_t groups = 0;  ///< kGroups only, at least 1

  bool shares() const { return kind != Kind::kJunction; }
};

/// "junction" (or nothing), "model", or a number of groups from 1 on; anything else: no value.
std::optional<MapSharing> parse_map_sharing(const std::string& text);

/// The field's own spelling.
std::string to_string(const MapSharing& sharing);

/// Group of each of `junctions` junctions, ascending: `groups` of the first `mapped`, and one of
/// its own for a last junction that is not mapped. Needs 1 <= groups <= mapped <= junctions.
std::vector<int64_t> make_junction_groups(int64_t groups, int64_t mapped, int64_t junctions);

}  // namespace dotresize
