#pragma once

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/child_process.h"
#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

// Phases of a job's progress (v1::Progress).
inline constexpr char kFetchPhase[] = "fetch";
inline constexpr char kPushPhase[] = "push";

/// Why something elsewhere could not be fetched or pushed: CANCELLED, or a code of
/// worker/python/remote_files.py (NOT_FOUND, NO_CREDENTIALS, NO_PERMISSION, NETWORK, NO_SPACE,
/// EXISTS, INVALID).
class TransferError : public std::runtime_error {
 public:
  TransferError(std::string code, const std::string& message)
      : std::runtime_error(message), code_(std::move(code)) {}
  const std::string& code() const { return code_; }
  /// Whether it may pass.
  bool may_pass() const { return code_ == kNetwork; }

  static constexpr char kNetwork[] = "NETWORK";
  static constexpr char kCancelled[] = "CANCELLED";

 private:
  std::string code_;
};

/// Where copies are kept.
struct RemoteCache {
  std::filesystem::path directory;
  int64_t size = int64_t{200} << 30;  ///< bytes that copies may take together

  /// Where outputs are, each in a folder of its own there.
  std::filesystem::path outputs() const { return directory / "outputs"; }
  /// Where the output for this URL is made before it is pushed.
  std::filesystem::path output_for(const std::string& url) const;
};

/// What is fetched of a URL: a model, all of it but its weights, or one file.
enum class FetchKind { kModel, kConfig, kFile };

/// A copy, or what was pushed.
struct TransferResult {
  std::filesystem::path path;  ///< of a copy
  std::string revision;        ///< of a copy or an output: the commit, or a hash of ETags
};

std::vector<std::string> fetch_command(const std::string& url, FetchKind kind,
                                       const RemoteCache& cache);
/// Refuses an output that exists. `model`: what is to be pushed, if it is made already.
std::vector<std::string> look_command(const std::string& url, bool overwrite,
                                      const std::filesystem::path& model = {});
std::vector<std::string> push_command(const std::filesystem::path& model, const std::string& url,
                                      bool overwrite);

/// Reads what one of these programs writes, and tells its progress: phase, bytes, rate, ETA.
class TransferOutput final : public ProgramOutput {
 public:
  using Tell = std::function<void(const v1::Progress&)>;
  TransferOutput(
      std::string phase, Tell tell, std::function<void()> tick = [] {});

  void standard_output(std::string_view bytes) override;
  void standard_error(std::string_view bytes) override;
  void tick() override { tick_(); }
  /// The result of the program, whose exit code run_program() has returned. Throws TransferError,
  /// ProgramMissing.
  TransferResult result(int exit_code) const;

 private:
  void take(std::string_view line);

  std::string phase_;
  Tell tell_;
  std::function<void()> tick_;
  std::string unfinished_;  ///< the last line, without its newline
  std::string errors_;      ///< the end of its stderr
  TransferResult result_;
  std::string code_;  ///< of its error; empty: none
  std::string message_;
};

}  // namespace dotresize
