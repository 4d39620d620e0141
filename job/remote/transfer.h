#pragma once

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/output_owner.h"
#include "base/process/child_process.h"
#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

// Transfer phases of a job's progress (v1::Progress).
inline constexpr char kFetchPhase[] = "fetch";
inline constexpr char kPushPhase[] = "push";

/// Failure of a fetch or a push. Its code is CANCELLED, FAILED (the helper ended without a reason)
/// or one of worker/python/remote_files.py: NOT_FOUND, NO_CREDENTIALS, NO_PERMISSION, NETWORK,
/// NO_SPACE, EXISTS or INVALID.
class TransferError : public std::runtime_error {
 public:
  TransferError(std::string code, const std::string& message)
      : std::runtime_error(message), code_(std::move(code)) {}
  const std::string& code() const { return code_; }
  /// Returns true if a later try may succeed.
  bool may_pass() const { return code_ == kNetwork; }

  static constexpr char kNetwork[] = "NETWORK";
  static constexpr char kCancelled[] = "CANCELLED";

 private:
  std::string code_;
};

/// Location and size limit of the cache.
struct RemoteCache {
  std::filesystem::path directory;
  int64_t size = int64_t{200} << 30;  ///< limit for all copies together, in bytes

  /// Parent directory of outputs, each in a folder of its own.
  std::filesystem::path outputs() const { return directory / "outputs"; }
  /// Directory in which the output for this URL is made before it is pushed.
  std::filesystem::path output_for(const std::string& url) const;
};

/// Kind of a fetch: a whole model, a model without its weights, or one file.
enum class FetchKind { kModel, kConfig, kFile };

/// Result of a fetch or a push.
struct TransferResult {
  std::filesystem::path path;  ///< path of a local copy
  std::string revision;        ///< commit, or a hash of ETags
};

std::vector<std::string> fetch_command(const std::string& url, FetchKind kind,
                                       const RemoteCache& cache);
/// An output's place elsewhere.
struct RemotePlace {
  std::string url;
  bool overwrite = false;
  OutputRights rights = {};  ///< over an output that is there
};

/// Command that refuses an existing output. `model`: output to push, if it is made already.
std::vector<std::string> look_command(const RemotePlace& place,
                                      const std::filesystem::path& model = {});
std::vector<std::string> push_command(const std::filesystem::path& model, const RemotePlace& place);

/// Parses the output of one of these programs, and reports its progress: phase, bytes, rate, ETA.
class TransferOutput final : public ProgramOutput {
 public:
  using Tell = std::function<void(const v1::Progress&)>;
  TransferOutput(
      std::string phase, Tell tell, std::function<void()> tick = [] {});

  void standard_output(std::string_view bytes) override;
  void standard_error(std::string_view bytes) override;
  void tick() override { tick_(); }
  /// Returns the program's result. `exit_code` is the value that run_program() returned. Throws
  /// TransferError, ProgramMissing.
  TransferResult result(int exit_code) const;

 private:
  void take(std::string_view line);

  std::string phase_;
  Tell tell_;
  std::function<void()> tick_;
  std::string unfinished_;  ///< last line, still without its newline
  std::string errors_;      ///< end of the program's stderr
  TransferResult result_;
  std::string code_;  ///< error code; empty: no error
  std::string message_;
};

}  // namespace dotresize
