#pragma once

#include <string>
#include <vector>

namespace dotresize {

/// The command line that starts `ranks` processes of `program` (with its arguments) on this machine
/// with OpenMPI. The only place that knows options of mpirun.
std::vector<std::string> mpirun_command(int ranks, const std::vector<std::string>& program);

}  // namespace dotresize
