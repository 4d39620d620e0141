#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dotresize {

/// `method.shortcuts`: how the skip paths of the output are stored (method.md, "Shortcuts").
struct Shortcuts {
  enum class Kind {
    kExact,  ///< in the form with fewest bytes that computes the same
    kDense,  ///< as one matrix each
    kRank,   ///< likewise as kExact, of rank `rank` at most
    kAuto,   ///< likewise, of ranks that an allocation chooses
  };
  Kind kind = Kind::kExact;
  int64_t rank = 0;                 ///< kRank; of kAuto what is planned with until they are chosen
  std::vector<int64_t> ranks = {};  ///< kAuto only, once chosen: of each sublayer
};

/// "exact" (or nothing), "dense", "auto", or a rank from 0 on; anything else: no value.
std::optional<Shortcuts> parse_shortcuts(const std::string& text);

/// The field's own spelling.
std::string to_string(const Shortcuts& shortcuts);

}  // namespace dotresize
