#include "job/remote/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/errors.h"
#include "base/process/program.h"
#include "base/text/printable.h"
#include "base/text/sha256.h"
#include "job/spec/spec_paths.h"
#include "worker/python/python_helper.h"

namespace dotresize {
namespace {

constexpr size_t kLongestLine = size_t{64} * 1024;
constexpr size_t kKeptErrors = size_t{4} * 1024;
constexpr size_t kLongestMessage = 2000;

std::vector<std::string> command_of(const std::vector<std::string>& arguments) {
  return python_helper_command({{"remote_stores", remote_stores_py()},
                                {"remote_cache", remote_cache_py()},
                                {"remote_files", remote_files_py()}},
                               arguments);
}

const char* kind_name(FetchKind kind) {
  switch (kind) {
    case FetchKind::kModel:
      return "model";
    case FetchKind::kConfig:
      return "config";
    case FetchKind::kFile:
      return "file";
  }
  return "";
}

v1::Progress progress_of(const nlohmann::json& record, const std::string& phase) {
  v1::Progress progress;
  const int64_t done = record.value("bytes_done", int64_t{0});
  const int64_t total = record.value("bytes_total", int64_t{0});
  progress.set_phase(phase);
  progress.set_bytes_done(done);
  progress.set_bytes_total(total);
  progress.set_bytes_per_second(record.value("bytes_per_second", 0.0));
  progress.set_fraction(
      total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0.0);
  const nlohmann::json& eta = record.at("eta_s");
  progress.set_eta_s(eta.is_number() ? eta.get<double>() : -1.0);
  return progress;
}

void add_place(const RemotePlace& place, std::vector<std::string>& arguments) {
  arguments.push_back(place.url);
  if (place.overwrite) arguments.emplace_back("--overwrite");
  if (!place.rights.any) arguments.insert(arguments.end(), {"--rights", rights_text(place.rights)});
}

}  // namespace

std::filesystem::path RemoteCache::output_for(const std::string& url) const {
  const std::string place = without_revision(url);
  const std::string name = place.substr(place.find_last_of('/') + 1);
  return outputs() / sha256_of_bytes(place.data(), place.size()).substr(0, 40) / name;
}

std::vector<std::string> fetch_command(const std::string& url, FetchKind kind,
                                       const RemoteCache& cache) {
  return command_of({"fetch", url, "--kind", kind_name(kind), "--cache", cache.directory.string(),
                     "--cache-size", std::to_string(cache.size)});
}

std::vector<std::string> look_command(const RemotePlace& place,
                                      const std::filesystem::path& model) {
  std::vector<std::string> arguments = {"look"};
  add_place(place, arguments);
  if (!model.empty()) arguments.insert(arguments.end(), {"--model", model.string()});
  return command_of(arguments);
}

std::vector<std::string> push_command(const std::filesystem::path& model,
                                      const RemotePlace& place) {
  std::vector<std::string> arguments = {"push", model.string()};
  add_place(place, arguments);
  return command_of(arguments);
}

TransferOutput::TransferOutput(std::string phase, Tell tell, std::function<void()> tick)
    : phase_(std::move(phase)), tell_(std::move(tell)), tick_(std::move(tick)) {}

void TransferOutput::standard_output(std::string_view bytes) {
  unfinished_ += bytes;
  size_t begin = 0;
  for (size_t end = 0; (end = unfinished_.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    take(std::string_view(unfinished_).substr(begin, end - begin));
  }
  unfinished_.erase(0, begin);
  if (unfinished_.size() > kLongestLine) unfinished_.clear();
}

void TransferOutput::standard_error(std::string_view bytes) {
  errors_ += bytes;
  if (errors_.size() > kKeptErrors) errors_.erase(0, errors_.size() - kKeptErrors);
}

void TransferOutput::take(std::string_view line) {
  const nlohmann::json record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) return;
  if (const auto progress = record.find("progress"); progress != record.end()) {
    tell_(progress_of(*progress, phase_));
  } else if (const auto result = record.find("result"); result != record.end()) {
    result_ = {result->value("path", ""), result->value("revision", "")};
  } else if (const auto error = record.find("error"); error != record.end()) {
    code_ = error->value("code", "");
    message_ = printable(error->value("message", ""), kLongestMessage);
  }
}

TransferResult TransferOutput::result(int exit_code) const {
  if (exit_code == kExitOk) return result_;
  if (exit_code == kExitCancelled) {
    throw TransferError(TransferError::kCancelled, phase_ + ": cancelled");
  }
  if (exit_code == kExitUnavailable || exit_code == kExitCannotExecute) {
    throw ProgramMissing("the helper that fetches and pushes models cannot run in " +
                         python_program() + ": " +
                         (message_.empty() ? printable(last_line(errors_), kLongestMessage)
                                           : message_ + " (pip install boto3 huggingface_hub)"));
  }
  if (!code_.empty()) throw TransferError(code_, message_);
  throw TransferError("FAILED", fmt::format("{}: the helper ended with {}: {}", phase_, exit_code,
                                            printable(last_line(errors_), kLongestMessage)));
}

}  // namespace dotresize
