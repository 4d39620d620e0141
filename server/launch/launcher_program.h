#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include "base/failure.h"

namespace dotresize {

/// Error: the launcher has not answered; it is asked again.
struct LauncherFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Error: the launcher refuses the attempt for good.
struct LauncherRefusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The state of an attempt, as a launcher says.
struct LauncherAnswer {
  enum class State {
    kWaiting,  ///< its ranks need not call
    kRunning,
    kEnded,
  };

  State state = State::kWaiting;
  std::string note;                ///< text for people
  int exit_code = 0;               ///< kEnded: of the command; 0 to 255
  std::optional<Failure> failure;  ///< kEnded: the cluster is the cause
};

/// Parses the answer of `PROGRAM status` for the attempts `names`; those that it does not name are
/// left out. Throws LauncherFault, which names what is wrong.
std::map<std::string, LauncherAnswer> parse_launcher_answers(const std::string& text,
                                                             const std::vector<std::string>& names);

/// A launcher's program (docs/server.md, Launchers): `PROGRAM submit`, `status` and `cancel`, each
/// with a JSON object on standard input. It has this process's environment, and DOTRESIZE_PROGRAMS,
/// the folder of this program. A call blocks for as long as the program runs, at most `limit`, or
/// until `stop`. Calls throw LauncherFault.
struct LauncherProgram {
  std::filesystem::path file;
  std::chrono::seconds limit{60};

  /// Submits the attempt that `request` describes. The program inherits the descriptor `lock`; a
  /// stop leaves it alone. Throws LauncherRefusal too.
  void submit(const std::string& request, int lock, const std::stop_token& stop) const;
  /// Asks for attempts, given as name and folder. Those that the cluster does not know are left
  /// out.
  std::map<std::string, LauncherAnswer> status(
      const std::map<std::string, std::filesystem::path>& attempts,
      const std::stop_token& stop) const;
  void cancel(const std::string& name, const std::filesystem::path& folder,
              const std::stop_token& stop) const;
};

}  // namespace dotresize
