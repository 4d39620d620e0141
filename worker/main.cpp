#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "base/process/program.h"
#include "worker/commands/worker_program.h"

int main(int argc, char** argv) {
  dotresize::leave_unusable_temporary_directory();
  const int exit_code = dotresize::run_worker(argc, argv);
  std::cout.flush();
  std::fflush(nullptr);
  // Destructors of libtorch take its table of operators apart: a quarter of the processor time of a
  // short run.
  std::_Exit(exit_code);
}
