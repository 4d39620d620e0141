#include "server/launch/launchers.h"

#include <array>
#include <stdexcept>

#include "server/launch/external_launcher.h"
#include "server/launch/kubernetes/kubernetes_launcher.h"
#include "server/launch/local_launcher.h"
#include "server/launch/slurm/slurm_launcher.h"

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

constexpr std::array<Row, 4> kRows = {{
    {v1::Resources::local, make<LocalLauncher>},
    {v1::Resources::slurm, make<SlurmLauncher>},
    {v1::Resources::external, make<ExternalLauncher>},
    {v1::Resources::kubernetes, make<KubernetesLauncher>},
}};
static_assert(std::ssize(kRows) == v1::Resources::Launcher_ARRAYSIZE, "each name has its row");

}  // namespace

Launchers::Launchers(const LauncherContext& context,
                     const std::vector<v1::Resources::Launcher>& offered)
    : offered_(offered) {
  for (const Row& row : kRows) launchers_[row.name] = row.make(context);
}

void Launchers::require_ready() const {
  for (const v1::Resources::Launcher name : offered_) launchers_.at(name)->require_ready();
}

Launcher& Launchers::of(const v1::Job& job) {
  const auto found = launchers_.find(job.launcher());
  if (found == launchers_.end()) {
    throw std::invalid_argument("there is no launcher '" +
                                v1::Resources::Launcher_Name(job.launcher()) + "'");
  }
  return *found->second;
}

}  // namespace dotresize
