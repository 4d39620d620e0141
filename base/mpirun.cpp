#include "base/mpirun.h"

#include <unistd.h>

namespace dotresize {

std::vector<std::string> mpirun_command(int ranks, const std::vector<std::string>& program) {
  std::vector<std::string> command = {"mpirun"};
  if (geteuid() == 0) command.emplace_back("--allow-run-as-root");
  const std::vector<std::string> options = {
      // There may be fewer cores than ranks; ranks then share them, none is bound to one.
      "--oversubscribe", "--bind-to", "none",
      // One machine: no remote shell is looked for.
      "--mca", "plm_rsh_agent", "",
      // Ranks may not be allowed to read each other's memory (containers): copy through buffers.
      "--mca", "btl_vader_single_copy_mechanism", "none", "-np", std::to_string(ranks)};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

}  // namespace dotresize
