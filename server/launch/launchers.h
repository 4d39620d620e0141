#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/launch/launcher.h"

namespace dotresize {

/// Launcher that jobs may use.
struct LauncherChoice {
  std::string name;
  std::filesystem::path program;  ///< see contract_launcher.cpp; empty: local or external
};

/// Launcher for ranks that a person starts.
inline constexpr char kExternalLauncher[] = "external";

/// The launchers of jobs, by name.
class Launchers {
 public:
  /// `offered`: launchers that new jobs may use.
  Launchers(const LauncherContext& context, const std::vector<LauncherChoice>& offered);

  /// Launcher that starts the job's ranks. Existing attempts of one that is not offered are
  /// followed to their end, if its program is where those of the package are.
  Launcher& of(const v1::Job& job);
  /// Throws ProgramMissing if an offered launcher is not ready.
  void require_ready() const;

 private:
  const LauncherContext context_;
  std::map<std::string, std::unique_ptr<Launcher>> launchers_;
  std::vector<LauncherChoice> offered_;
};

/// File of the package's launcher of this name, share/dotresize/launchers/NAME beside bin/.
std::filesystem::path packaged_launcher(const std::string& name);

}  // namespace dotresize
