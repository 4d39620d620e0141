#include "worker/commands/worker_program.h"

int main(int argc, char** argv) { return dotresize::run_worker(argc, argv); }
