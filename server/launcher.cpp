#include "server/launcher.h"

#include <array>
#include <stdexcept>

#include "server/local_launcher.h"

namespace dotresize {
namespace {

struct Row {
  v1::Resources::Launcher name;
  std::unique_ptr<Launcher> (*make)(const LauncherContext& context);
};

template <class Kind>
std::unique_ptr<Launcher> make(const LauncherContext& context) {
  return std::make_unique<Kind>(context);
}

constexpr std::array<Row, 1> kRows = {{
    {v1::Resources::local, make<LocalLauncher>},
}};

}  // namespace

int ranks_of(const v1::JobSpec& spec) {
  return spec.resources().has_ranks() ? static_cast<int>(spec.resources().ranks()) : 1;
}

Launchers::Launchers(const LauncherContext& context) {
  for (const Row& row : kRows) launchers_[row.name] = row.make(context);
}

void Launchers::require_ready() const {
  for (const auto& [name, launcher] : launchers_) launcher->require_ready();
}

Launcher& Launchers::of(const v1::Job& job) {
  const v1::Resources::Launcher name = job.spec().resources().launcher();
  const auto found = launchers_.find(name);
  if (found == launchers_.end()) {
    throw std::invalid_argument("resources.launcher: there is no launcher '" +
                                v1::Resources::Launcher_Name(name) + "'");
  }
  return *found->second;
}

}  // namespace dotresize
