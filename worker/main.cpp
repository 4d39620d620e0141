#include "base/process/environment.h"
#include "worker/commands/worker_program.h"

int main(int argc, char** argv) {
  dotresize::leave_unusable_temporary_directory();
  return dotresize::run_worker(argc, argv);
}
