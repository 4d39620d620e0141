// Stands in for mpirun in tests of the supervisor. The first argument selects the behaviour.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

constexpr int kLongSeconds = 300;

[[noreturn]] void sleep_long() {
  for (int i = 0; i < kLongSeconds; ++i) ::sleep(1);
  std::exit(0);
}

/// Starts a process that has its own session and ignores SIGTERM.
void start_stubborn_child() {
  if (::fork() != 0) return;
  ::setsid();
  std::signal(SIGTERM, SIG_IGN);
  sleep_long();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view behaviour = argc > 1 ? argv[1] : "";
  std::printf("stand-in: %s\n", argv[1]);
  std::fflush(stdout);
  if (behaviour == "exit" && argc > 2) return std::atoi(argv[2]);
  if (behaviour == "die" && argc > 2) return std::raise(std::atoi(argv[2]));
  if (behaviour == "sleep") sleep_long();
  if (behaviour == "descriptors")
    return ::fcntl(3, F_GETFD) == -1 && ::fcntl(4, F_GETFD) == -1 ? 0 : 1;
  if (behaviour == "leave-orphan") {
    start_stubborn_child();
    return 5;
  }
  if (behaviour == "ignore-sigterm") {
    std::signal(SIGTERM, SIG_IGN);
    start_stubborn_child();
    start_stubborn_child();
    sleep_long();
  }
  return 64;
}
