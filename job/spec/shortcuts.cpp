#include "job/spec/shortcuts.h"

#include "base/parse_number.h"

namespace dotresize {

std::optional<Shortcuts> parse_shortcuts(const std::string& text) {
  if (text.empty() || text == "exact") return Shortcuts{};
  if (text == "dense") return Shortcuts{Shortcuts::Kind::kDense, 0};
  if (text == "auto") return Shortcuts{Shortcuts::Kind::kAuto, 0};
  const auto rank = parse_number<uint32_t>(text);
  if (!rank) return std::nullopt;
  return Shortcuts{Shortcuts::Kind::kRank, *rank};
}

std::string to_string(const Shortcuts& shortcuts) {
  switch (shortcuts.kind) {
    case Shortcuts::Kind::kDense:
      return "dense";
    case Shortcuts::Kind::kRank:
      return std::to_string(shortcuts.rank);
    case Shortcuts::Kind::kAuto:
      return "auto";
    default:
      return "exact";
  }
}

}  // namespace dotresize
