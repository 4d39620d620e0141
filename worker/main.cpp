#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "base/process/program.h"
#include "worker/commands/worker_program.h"

int main(int argc, char** argv) {
  dotresize::open_standard_streams();
  dotresize::leave_unusable_temporary_directory();
  // Blocks above this size go back to the system as soon as they are free. Without it glibc raises
  // the size to that of the largest block that was freed, up to 32 MiB.
  mallopt(M_MMAP_THRESHOLD, 8 << 20);
  // glibc's own rule, which the line above ends. Without it the heap shrinks at nearly every free.
  mallopt(M_TRIM_THRESHOLD, 2 * (8 << 20));
  const int exit_code = dotresize::run_worker(argc, argv);
  std::cout.flush();
  std::fflush(nullptr);
  // Destructors of libtorch take its table of operators apart: a quarter of the processor time of a
  // short run.
  std::_Exit(exit_code);
}
