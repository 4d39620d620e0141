#pragma once

#include <string>

namespace dotresize {

/// Result of `dotresize doctor` for one part of a machine.
struct Check {
  enum State {
    kOk,
    kNote,   ///< missing, or less than expected, but not a fault
    kFault,  ///< does not work
  };
  std::string part;  ///< "mpirun"
  State state = kOk;
  std::string text = {};    ///< finding
  std::string advice = {};  ///< advice for the user; empty: none
  bool needed = true;       ///< CPU jobs cannot run while this is at fault
};

/// Returns "ok", "note" or "fault".
inline std::string to_string(Check::State state) {
  if (state == Check::kOk) return "ok";
  return state == Check::kNote ? "note" : "fault";
}

}  // namespace dotresize
