#pragma once

#include <map>
#include <memory>
#include <vector>

#include "server/launch/launcher.h"

namespace dotresize {

/// A launcher for each value of `resources.launcher`.
class Launchers {
 public:
  /// `offered`: launchers that new jobs may use. Existing attempts of others are followed to their
  /// end.
  Launchers(const LauncherContext& context, const std::vector<v1::Resources::Launcher>& offered);

  /// Launcher that starts the job's ranks. Throws std::invalid_argument if there is none.
  Launcher& of(const v1::Job& job);
  /// Throws ProgramMissing if an offered launcher is not ready.
  void require_ready() const;

 private:
  std::map<v1::Resources::Launcher, std::unique_ptr<Launcher>> launchers_;
  std::vector<v1::Resources::Launcher> offered_;
};

}  // namespace dotresize
