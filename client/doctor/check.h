#pragma once

#include <string>

namespace dotresize {

/// One part of a machine, as `dotresize doctor` finds it.
struct Check {
  enum State {
    kOk,
    kNote,   ///< not there, or less than one may think, and no fault
    kFault,  ///< does not work
  };
  std::string part;  ///< "mpirun"
  State state = kOk;
  std::string text = {};    ///< what was found
  std::string advice = {};  ///< what to do; empty if there is nothing to do
  bool needed = true;       ///< a job on the CPU cannot run while this is at fault
};

/// "ok", "note", "fault".
inline std::string to_string(Check::State state) {
  if (state == Check::kOk) return "ok";
  return state == Check::kNote ? "note" : "fault";
}

}  // namespace dotresize
