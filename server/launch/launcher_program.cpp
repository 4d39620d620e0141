#include "server/launch/launcher_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/process/child_process.h"
#include "base/process/program.h"
#include "base/text/checked_json.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "server/launch/attempt.h"
#include "server/launch/outcome.h"

namespace dotresize {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxAnswer = size_t{16} << 20;
constexpr size_t kMaxText = 500;
constexpr int kMaxExitCode = 255;

/// The key's value, which must be one of `words`. Throws LauncherFault.
std::string word_of(const Json& attempt, const char* key, const std::vector<std::string>& words) {
  const auto& word = attempt.at(key).get_ref<const std::string&>();
  if (std::ranges::find(words, word) != words.end()) return word;
  throw LauncherFault(
      fmt::format("status: {} {} is not one of {}", key, in_quotes(word), listed(words)));
}

LauncherAnswer answer_of(const Json& attempt) {
  using State = LauncherAnswer::State;
  LauncherAnswer answer;
  const std::string state = word_of(attempt, "state", {"waiting", "running", "ended"});
  if (attempt.contains("note"))
    answer.note = printable(attempt.at("note").get<std::string>(), kMaxText);
  if (state != "ended") {
    answer.state = state == "running" ? State::kRunning : State::kWaiting;
    return answer;
  }
  answer.state = State::kEnded;
  if (attempt.contains("code")) {
    answer.exit_code = kExitJobFailed;
    const std::string code =
        word_of(attempt, "code", {kLost, kRankFailed, kInvalidInput, kDeadlineExceeded});
    answer.failure =
        failure(code.c_str(), printable(attempt.at("message").get<std::string>(), kMaxText));
    return answer;
  }
  const auto exit_code = attempt.at("exit_code").get<int64_t>();
  if (exit_code < 0 || exit_code > kMaxExitCode) {
    throw LauncherFault(fmt::format("status: {} is not an exit code", exit_code));
  }
  answer.exit_code = static_cast<int>(exit_code);
  return answer;
}

struct Result {
  int exit_code = 0;
  std::string output;
  std::string last_line;  ///< last line of standard error, printable; else how it has ended
};

/// Runs the program. Throws LauncherFault if it does not end by itself with an answer of due size.
Result run(const LauncherProgram& program, const char* verb, const std::string& input,
           const std::stop_token& stop, int lock = -1) {
  ChildQuestion question;
  question.command = {program.file.string(), verb};
  const std::string programs = "DOTRESIZE_PROGRAMS=";
  question.environment = {programs + folder_of_this_program().string()};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::string_view(*variable).starts_with(programs))
      continue;  // belong to another installation
    question.environment.emplace_back(*variable);
  }
  question.input = input;
  question.limit = program.limit;
  question.stop = stop;
  question.kept_descriptor = lock;
  question.kept_number = kLockDescriptor;
  question.outlives_stop = lock >= 0;
  std::optional<CapturedChild> child;
  try {
    child = ask_child(question);
  } catch (const std::system_error& error) {
    throw LauncherFault(error.what());
  }
  if (!child) {
    throw LauncherFault(fmt::format("{} did not end within {} s", verb, program.limit.count()));
  }
  if (child->output.size() > kMaxAnswer) {
    throw LauncherFault(fmt::format("{} wrote more than {} MiB", verb, kMaxAnswer >> 20));
  }
  std::string line = printable(child->last_line, kMaxText);
  if (line.empty()) line = fmt::format("{} ended with exit code {}", verb, child->exit_code);
  return {child->exit_code, std::move(child->output), std::move(line)};
}

}  // namespace

std::map<std::string, LauncherAnswer> parse_launcher_answers(
    const std::string& text, const std::vector<std::string>& names) {
  std::map<std::string, LauncherAnswer> answers;
  try {
    const Json attempts = parse_json_object(text, "status").at("attempts");
    if (!attempts.is_object()) throw LauncherFault("status: attempts is not an object");
    for (const std::string& name : names) {
      if (attempts.contains(name)) answers[name] = answer_of(attempts.at(name));
    }
  } catch (const InputError& error) {
    throw LauncherFault(error.what());
  } catch (const Json::exception& error) {
    throw LauncherFault("status: " + json_fault(error));
  }
  return answers;
}

void LauncherProgram::submit(const std::string& request, int lock,
                             const std::stop_token& stop) const {
  const Result result = run(*this, "submit", request, stop, lock);
  if (result.exit_code == kExitBadData) throw LauncherRefusal(result.last_line);
  if (result.exit_code != kExitOk) throw LauncherFault(result.last_line);
}

std::map<std::string, LauncherAnswer> LauncherProgram::status(
    const std::map<std::string, std::filesystem::path>& attempts,
    const std::stop_token& stop) const {
  Json request = {{"attempts", Json::object()}};
  std::vector<std::string> names;
  for (const auto& [name, folder] : attempts) {
    request["attempts"][name] = folder.string();
    names.push_back(name);
  }
  const Result result = run(*this, "status", request.dump(), stop);
  if (result.exit_code != kExitOk) throw LauncherFault(result.last_line);
  return parse_launcher_answers(result.output, names);
}

void LauncherProgram::cancel(const std::string& name, const std::filesystem::path& folder,
                             const std::stop_token& stop) const {
  const Json request = {{"name", name}, {"folder", folder.string()}};
  const Result result = run(*this, "cancel", request.dump(), stop);
  if (result.exit_code != kExitOk) throw LauncherFault(result.last_line);
}

}  // namespace dotresize
