#include "base/failure.h"

#include <algorithm>
#include <filesystem>

#include "base/files/confinement.h"
#include "base/process/child_process.h"
#include "base/process/program.h"
#include "base/text/encodings.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

constexpr size_t kMaxCode = 64;
constexpr size_t kMaxHost = 255;
constexpr size_t kMaxPhase = 64;
constexpr size_t kMaxMessage = 2000;

constexpr std::string_view kBeforeRank = "dotresize-worker: error: rank ";
constexpr std::string_view kBeforeHost = " on ";
constexpr std::string_view kBeforePhase = " in ";
constexpr std::string_view kBeforeMessage = ": ";

/// Takes the text before `end` from `text` and drops `end`; nothing if `end` is missing.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view end) {
  const size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + end.size());
  return taken;
}

}  // namespace

std::string error_text(const std::exception& error) {
  const auto* of_files = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  return of_files ? shown_path(of_files->path1()) + ": " + of_files->code().message()
                  : error.what();
}

const char* failure_code(int exit_code) {
  if (exit_code == kExitBadData) return kInvalidInput;
  if (exit_code == kExitCannotExecute || exit_code == kExitUnavailable) return kLaunchFailed;
  return kRankFailed;
}

Failure printable(const Failure& failure) {
  return {printable(failure.code, kMaxCode), failure.rank, printable(failure.host, kMaxHost),
          printable(failure.phase, kMaxPhase), printable(failure.message, kMaxMessage)};
}

std::string failure_line(const Failure& failure) {
  Failure clean = printable(failure);
  std::replace(clean.host.begin(), clean.host.end(), ' ', '?');
  std::replace(clean.phase.begin(), clean.phase.end(), ':', '?');
  std::string line(kBeforeRank);
  line += std::to_string(clean.rank);
  line.append(kBeforeHost).append(clean.host.empty() ? "?" : clean.host);
  line.append(kBeforePhase).append(clean.phase.empty() ? "start" : clean.phase);
  return line.append(kBeforeMessage).append(printable(failure.message));
}

std::optional<Failure> parse_failure_line(std::string_view line) {
  if (!line.starts_with(kBeforeRank)) return std::nullopt;
  line.remove_prefix(kBeforeRank.size());
  const auto rank = take_until(line, kBeforeHost);
  const auto host = take_until(line, kBeforePhase);
  const auto phase = take_until(line, kBeforeMessage);
  const auto number = rank ? parse_number<int>(*rank) : std::nullopt;
  if (!number || !host || !phase) return std::nullopt;
  return Failure{"", *number, std::string(*host), std::string(*phase), std::string(line)};
}

}  // namespace dotresize
