#include "client/display/mpi_messages.h"

#include <algorithm>
#include <string_view>

namespace dotresize {
namespace {

/// True for a rule of hyphens. OpenMPI puts help texts between two of them (opal/util/show_help.c).
bool is_rule(const std::string& line) {
  constexpr size_t kLeast = 70;
  return line.size() >= kLeast && std::ranges::all_of(line, [](char c) { return c == '-'; });
}

/// True for a line "[host:12345] ...", the form of opal_output.
bool has_process_prefix(const std::string& line) {
  const size_t colon = line.find(':');
  const size_t end = line.find(']');
  if (!line.starts_with('[') || colon == std::string::npos || end == std::string::npos)
    return false;
  return colon + 1 < end && line.find(' ') > end &&
         std::all_of(line.begin() + static_cast<std::ptrdiff_t>(colon) + 1,
                     line.begin() + static_cast<std::ptrdiff_t>(end),
                     [](char c) { return c >= '0' && c <= '9'; });
}

/// True for lines of ranks, which write at the same time as mpirun.
bool is_ours(const std::string& line) {
  constexpr std::string_view kProgram = "dotresize";
  return line.starts_with(kProgram) || line.starts_with('\x1e');
}

}  // namespace

bool MpiMessages::take(const std::string& line) {
  if (is_ours(line)) return false;
  const bool rule = is_rule(line);
  if (!rule && !in_block_ && !has_process_prefix(line)) return false;
  if (rule) in_block_ = !in_block_;
  text_ += line + "\n";
  return true;
}

}  // namespace dotresize
