#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace dotresize {

/// Entries of one kind, whose names differ in their numbers: `kind(3, 96)` is "NAME-3-96".
struct EntryKind {
  std::string_view name;

  template <class... Parts>
  std::string operator()(const Parts&... parts) const {
    std::string entry(name);
    ((entry += fmt::format("-{}", parts)), ...);
    return entry;
  }
};

/// Number of the one map that all junctions share (docs/method.md, "Sharing maps").
inline constexpr int64_t kSharedMap = 0;

// The names of the entries of a Journal, but for those of cut sublayers (UnitCut).
// docs/architecture.md, "Journal", says what each contains. J is a junction, of a shared map
// kSharedMap; S a sublayer, W its width, L a layer, E a number of epochs, NxS a number of windows
// and their length.
namespace entries {

// An allocation. Curves and gradients do not depend on `size`.
inline constexpr EntryKind kCurve{"curve"};  // S
// Sums of the gradients behind a sublayer.
inline constexpr EntryKind kGradients{"gradients"};                  // S, fitted windows
inline constexpr EntryKind kHeldOutGradients{"held-out-gradients"};  // S
inline constexpr char kTrial[] = "trial";                            // a value

// Sums over the calibration tokens, and the bases of the second pass.
inline constexpr EntryKind kFirst{"first"};        // J
inline constexpr EntryKind kBasis{"basis"};        // J, with a map of its own
inline constexpr EntryKind kRotation{"rotation"};  // J, of a shared map
inline constexpr EntryKind kSecond{"second"};      // J

// Maps.
inline constexpr EntryKind kMap{"map"};            // J
inline constexpr EntryKind kShared{"shared"};      // J, a value: diagnostics of a shared map
inline constexpr EntryKind kJunction{"junction"};  // J, a value: diagnostics of a finished junction
inline constexpr EntryKind kShortcut{"shortcut"};  // S

// Healing.
inline constexpr EntryKind kHealed{"healed"};            // L
inline constexpr EntryKind kHealing{"healing"};          // L, a value
inline constexpr EntryKind kUpdates{"updates"};          // E-S, and E alone, a value
inline constexpr char kUpdateShare[] = "updates-share";  // a value

// The dense model's predictions of some windows.
inline constexpr EntryKind kDenseLoss{"dense"};  // HASH-NxS, a value
inline constexpr EntryKind kStates{"states"};    // HASH-NxS, and -M for each piece of them

}  // namespace entries
}  // namespace dotresize
