#include "job/plan/check_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/errors.h"
#include "base/files/partial_path.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/plan/block_sizes.h"
#include "job/plan/text_files.h"
#include "job/spec/spec_paths.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

/// Bytes per token of English text, assumed. The tokenizers of the families that we know have 3.5
/// to 5.
constexpr int64_t kUsualBytesPerToken = 4;
/// Tokens that a tokenizer may add to a text without using bytes of it.
constexpr int64_t kAddedTokens = 16;

/// Returns the reason why a file that is there cannot be read; empty if it can.
std::string reading_fault(const fs::path& file) {
  if (::faccessat(AT_FDCWD, file.c_str(), R_OK, AT_EACCESS) == 0 || errno == ENOENT) return "";
  return file.string() + ": cannot open: " + std::generic_category().message(errno);
}

/// Adds a finding if the texts are too short for `windows` windows of `seqlen` tokens, or may be.
/// Each token of a text has at least one byte; those that a chat template adds have none. `purpose`
/// may follow the number of windows.
void check_length(const std::string& key, const std::vector<fs::path>& texts, int64_t windows,
                  int64_t seqlen, const std::string& purpose, std::vector<FileFinding>& findings) {
  const int64_t needed = windows * seqlen;
  int64_t bytes = 0;
  for (const fs::path& text : texts) {
    if (const std::string fault = reading_fault(text); !fault.empty()) {
      findings.push_back({key, fault});
      return;
    }
    std::error_code error;
    const auto size = static_cast<int64_t>(fs::file_size(text, error));
    if (!error) bytes += estimated_text_bytes(text, size);
  }
  const auto blank_lines = 2 * (static_cast<int64_t>(texts.size()) - 1);
  const bool exact = std::ranges::none_of(texts, is_table);
  const std::string wanted =
      counted(windows, "window") + " of " + std::to_string(seqlen) + " tokens" + purpose;
  const std::string remedy = ": give more text, fewer samples or a smaller seqlen";
  if (exact && bytes + blank_lines + kAddedTokens < needed) {
    findings.push_back({key, counted(bytes, "byte") + " of text cannot be " + wanted + remedy});
  } else if (bytes / kUsualBytesPerToken < needed) {
    findings.push_back({key,
                        counted(bytes, "byte") + " of text, about " +
                            counted(bytes / kUsualBytesPerToken, "token") + ", may be less than " +
                            wanted + remedy,
                        /*fatal=*/false});
  }
}

/// Adds a finding if a token file has fewer windows than are needed. `purpose` may follow the
/// number.
void check_count(const std::string& key, const TokenSource& source, int64_t windows,
                 const std::string& purpose, std::vector<FileFinding>& findings) {
  const int64_t there = *source.count / *source.seqlen;
  if (there >= windows) return;
  findings.push_back({key, counted(*source.count, "token") + " are " + counted(there, "window") +
                               " of seqlen " + std::to_string(*source.seqlen) + ", and " +
                               std::to_string(windows) + (windows == 1 ? " is" : " are") +
                               " needed" + purpose +
                               ": give more tokens, fewer samples or a smaller seqlen"});
}

bool is_mount_point(const fs::path& path) {
  struct statx status {};
  return ::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &status) == 0 &&
         (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/// Returns the reason why what exists at `output` cannot be replaced; empty if it can.
std::string fault_of_existing(const fs::path& output, fs::file_type type, bool overwrite,
                              const fs::path& shown) {
  std::error_code error;
  const std::string path = shown.string();
  if (type == fs::file_type::symlink) {
    const bool leads_on = fs::exists(output, error);
    return path + " exists and is a link" + (leads_on ? "" : " to nothing") +
           ": remove it, or give the path " + (leads_on ? "it leads to" : "of a new directory");
  }
  if (is_mount_point(output)) {
    return path +
           " exists and is a mount point, which cannot be replaced: give a directory in it, " +
           "such as " + (shown / "model").string();
  }
  if (type == fs::file_type::directory && fs::is_empty(output, error) && !error) {
    return path + " exists and is empty: remove it (rmdir " + path + "), or choose another path";
  }
  if (!is_model_of_dotresize(output)) {
    return path + " exists and is not a model made by dotresize (it has no " + kReportDirectory +
           "/" + kReportFile + "), so it is not overwritten: remove it or choose another path";
  }
  return overwrite
             ? ""
             : path + " exists: remove it, choose another path, or set output.overwrite: true";
}

/// Returns the reason why entries of the folder of `output` cannot be made or renamed; empty if
/// they can. The folder and its parents may be missing.
std::string fault_of_folder(const fs::path& output, const fs::path& shown) {
  constexpr size_t kLongestName = 255;
  if (replaced_path(output).filename().string().size() > kLongestName) {
    return shown.string() +
           ": the name is too long; with .partial or .replaced attached it may "
           "have 255 bytes";
  }
  fs::path folder = partial_path(output).parent_path();
  fs::path name = partial_path(shown).parent_path();
  struct stat status {};
  while (::stat(folder.c_str(), &status) != 0) {
    if (errno != ENOENT) return name.string() + ": " + std::generic_category().message(errno);
    std::error_code error;
    if (fs::is_symlink(folder, error)) return name.string() + " is a link to nothing";
    if (!folder.has_relative_path()) return "";
    folder = folder.parent_path();
    name = name.parent_path();
  }
  if (!S_ISDIR(status.st_mode)) return name.string() + " is not a directory";
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return name.string() + ": " + std::generic_category().message(errno) +
           ", so no output can be made there";
  }
  struct stat old {};
  const auto others = [](const struct stat& file) { return file.st_uid != ::geteuid(); };
  if ((status.st_mode & S_ISVTX) == 0 || ::geteuid() == 0 || !others(status)) return "";
  if (::lstat(output.c_str(), &old) != 0 || !others(old)) return "";
  return shown.string() + " belongs to another user, and in " + name.string() +
         " users can replace only what is theirs";
}

}  // namespace

bool gives_text(const ResolvedJob& job) {
  return !job.calibration.text.empty() || (job.evaluation && !job.evaluation->text.empty());
}

std::vector<FileFinding> check_inputs(const ResolvedJob& job, const ModelConfig& config) {
  std::vector<FileFinding> findings;
  const bool evaluates_text = job.evaluation && !job.evaluation->text.empty();
  if (gives_text(job)) {
    std::string fault = tokenizer_fault(job.model.path);
    if (fault.empty()) fault = reading_fault(job.model.path / "tokenizer.json");
    if (!fault.empty()) findings.push_back({"model.path", fault});
  }
  const fs::path& statistics = job.statistics.directory();
  std::error_code missing;
  const bool there = job.statistics.used() || fs::exists(statistics, missing);
  if (job.statistics.given() && there && !fs::exists(statistics / kStatisticsFile, missing)) {
    findings.push_back({job.statistics.key(),
                        in_quotes(statistics.string()) + " has no statistics written by dotresize" +
                            (job.statistics.saved() ? ": choose another path or remove it" : "")});
  }
  const bool beside = job.evaluation && job.evaluation->unused_windows;
  const int64_t evaluated = job.evaluation ? job.evaluation->samples.value_or(1) : 0;
  std::string purpose =
      beside ? ", " + with_separators(evaluated) + " of them for the evaluation" : "";
  int64_t windows = expected_samples(job) + (beside ? evaluated : 0);
  if (job.healing && job.healing->samples.value_or(0) > windows) {
    windows = *job.healing->samples;
    purpose = " (heal.samples)";
  }
  if (!job.calibration.text.empty()) {
    check_length("calibration.text", job.calibration.text, windows, expected_seqlen(job, config),
                 purpose, findings);
  }
  if (job.calibration.count) {
    check_count("calibration.tokens", job.calibration, windows, purpose, findings);
  }
  if (!beside && job.evaluation && job.evaluation->count) {
    check_count("evaluation.tokens", *job.evaluation, evaluated, "", findings);
  }
  if (evaluates_text && !beside) {
    check_length("evaluation.text", job.evaluation->text, evaluated,
                 job.evaluation->seqlen.value_or(expected_seqlen(job, config)), "", findings);
  }
  return findings;
}

std::optional<OutputFault> output_fault(const fs::path& output, bool overwrite,
                                        const fs::path& shown) {
  if (auto fault = replacement_fault(output, overwrite, shown)) return fault;
  const std::string fault = fault_of_folder(output, shown);
  return fault.empty() ? std::nullopt : std::optional(OutputFault{false, fault});
}

std::optional<OutputFault> replacement_fault(const fs::path& output, bool overwrite,
                                             const fs::path& shown) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(output, error).type();
  if (type == fs::file_type::not_found) return std::nullopt;
  if (type == fs::file_type::none) {
    return OutputFault{false, shown.string() + ": " + error.message()};
  }
  const std::string fault = fault_of_existing(output, type, overwrite, shown);
  return fault.empty() ? std::nullopt : std::optional(OutputFault{overwrite, fault});
}

std::string model_directory_fault(const fs::path& model_path) {
  std::error_code error;
  if (fs::is_directory(model_path, error)) return "";
  const std::string fault = in_quotes(model_path.string()) + " is not a local directory";
  // The name of a model on the Hub ends in "org/name", and no directory "org" exists.
  const fs::path organisation = model_path.parent_path();
  if (fs::exists(organisation, error) || !organisation.has_filename()) return fault;
  const std::string name = organisation.filename().string() + "/" + model_path.filename().string();
  if (!is_plain_word(name, "-_./")) return fault;
  const fs::path place = is_remote(model_path.string()) ? model_path.filename() : model_path;
  return fault + "; a model of the Hugging Face Hub is fetched with hf download " + name +
         " --local-dir " + place.string();
}

void require_model_directory(const fs::path& model_path) {
  const std::string fault = model_directory_fault(model_path);
  if (!fault.empty()) throw InputError("model.path", fault);
}

}  // namespace dotresize
