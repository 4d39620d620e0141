#include "client/display/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <string>

#include "base/process/environment.h"

namespace dotresize {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

}  // namespace

Terminal stderr_terminal() {
  const std::string kind = environment_variable("TERM");
  Terminal terminal;
  terminal.interactive = isatty(STDERR_FILENO) == 1 && !kind.empty() && kind != "dumb";
  // The first of these that is set decides, like in setlocale(3).
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (locale.empty()) locale = environment_variable(name);
  }
  terminal.unicode =
      locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  terminal.colour = terminal.interactive && environment_variable("NO_COLOR").empty();
  return terminal;
}

int stderr_columns() {
  winsize size{};
  constexpr int kUsual = 80;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

InterruptGuard::InterruptGuard() {
  interrupt_seen = 0;
  struct sigaction action {};
  action.sa_handler = [](int) { interrupt_seen = 1; };
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, &previous_);
}

InterruptGuard::~InterruptGuard() { sigaction(SIGINT, &previous_, nullptr); }

bool InterruptGuard::interrupted() const { return interrupt_seen != 0; }

}  // namespace dotresize
