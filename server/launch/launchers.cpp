#include "server/launch/launchers.h"

#include "base/process/environment.h"
#include "server/store/resources.h"

namespace dotresize {
namespace {

std::unique_ptr<Launcher> make_launcher(const LauncherChoice& choice,
                                        const LauncherContext& context) {
  if (choice.name == kLocalLauncher) return make_local_launcher(context);
  if (choice.name == kExternalLauncher) return make_external_launcher(context);
  return make_contract_launcher(context, choice.name, choice.program);
}

}  // namespace

std::filesystem::path packaged_launcher(const std::string& name) {
  return folder_of_this_program().parent_path() / "share/dotresize/launchers" / name;
}

Launchers::Launchers(const LauncherContext& context, const std::vector<LauncherChoice>& offered)
    : context_(context), offered_(offered) {
  for (const LauncherChoice& choice : offered_) {
    launchers_[choice.name] = make_launcher(choice, context_);
  }
}

void Launchers::require_ready() const {
  for (const LauncherChoice& choice : offered_) launchers_.at(choice.name)->require_ready();
}

Launcher& Launchers::of(const v1::Job& job) {
  const std::string name = launcher_of(job);
  std::unique_ptr<Launcher>& launcher = launchers_[name];
  if (!launcher) launcher = make_launcher({name, packaged_launcher(name)}, context_);
  return *launcher;
}

}  // namespace dotresize
