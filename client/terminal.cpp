#include "client/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace dotresize {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The first of LC_ALL, LC_CTYPE and LANG that is set decides, as in setlocale(3).
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = environment(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace

Terminal stderr_terminal() {
  const std::string kind = environment("TERM");
  Terminal terminal;
  terminal.interactive = isatty(STDERR_FILENO) == 1 && !kind.empty() && kind != "dumb";
  terminal.unicode = locale_is_utf8();
  terminal.colour = terminal.interactive && environment("NO_COLOR").empty();
  return terminal;
}

int stderr_columns() {
  winsize size{};
  constexpr int kUsual = 80;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

}  // namespace dotresize
