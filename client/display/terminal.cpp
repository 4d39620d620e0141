#include "client/display/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <string>

#include "base/process/environment.h"

namespace dotresize {
namespace {

/// The first of LC_ALL, LC_CTYPE and LANG that is set decides, like in setlocale(3).
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = environment_variable(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

volatile std::sig_atomic_t interrupt_seen = 0;

extern "C" void remember_interrupt(int) { interrupt_seen = 1; }

}  // namespace

Terminal stderr_terminal() {
  const std::string kind = environment_variable("TERM");
  Terminal terminal;
  terminal.interactive = isatty(STDERR_FILENO) == 1 && !kind.empty() && kind != "dumb";
  terminal.unicode = locale_is_utf8();
  terminal.colour = terminal.interactive && environment_variable("NO_COLOR").empty();
  return terminal;
}

bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }

int stderr_columns() {
  winsize size{};
  constexpr int kUsual = 80;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

InterruptGuard::InterruptGuard() {
  interrupt_seen = 0;
  struct sigaction action {};
  action.sa_handler = remember_interrupt;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, &previous_);
}

InterruptGuard::~InterruptGuard() { sigaction(SIGINT, &previous_, nullptr); }

bool InterruptGuard::interrupted() const { return interrupt_seen != 0; }

}  // namespace dotresize
