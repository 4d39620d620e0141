#include "base/process/program.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace dotresize {

int checked_output(const char* program, int exit_code) {
  errno = 0;
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0;
  const int error = errno;
  if (flushed && std::cout && std::ferror(stdout) == 0) return exit_code;
  std::fprintf(stderr, "%s: error: cannot write to standard output: %s\n", program,
               error != 0
                   ? std::strerror(error)
                   : "an earlier write has failed: its disk is full, or its reader has gone");
  return exit_code == kExitOk ? kExitJobFailed : exit_code;
}

}  // namespace dotresize
