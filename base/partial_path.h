#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/files/pinned_directory.h"

namespace dotresize {

/// `<output>.partial`: the directory of an output that is not whole yet. "out/" is "out".
std::filesystem::path partial_path(const std::filesystem::path& output);

/// In the unfinished output: what the job has found so far (worker/calibration/journal.h), and in
/// it the file that says whose it is.
inline constexpr char kJournalDirectory[] = "journal";
inline constexpr char kJournalOfJob[] = "job.json";
/// Who makes the output (base/output_owner.h): in the journal, then in kReportDirectory.
inline constexpr char kOwnerOfOutput[] = "owner.json";

/// In a model directory that dotresize has made: what is said about it, and the file that is in
/// every one.
inline constexpr char kReportDirectory[] = "dotresize";
inline constexpr char kReportFile[] = "report.json";
inline constexpr char kMapsFile[] = "maps.safetensors";

/// Whether dotresize has made this directory: only such a one is ever overwritten.
bool is_model_of_dotresize(const std::filesystem::path& dir);

/// Says that `output` is there, and what to do.
std::string existing_output_fault(const std::filesystem::path& output);

/// Says that `output`, which is there, is none.
std::string foreign_output_fault(const std::filesystem::path& output);

/// Whether the directory has nothing in it but an empty journal, or one whose owner was never
/// written to its end: nothing that could be anybody's.
bool is_empty_partial(const std::filesystem::path& partial);

/// Whether nothing is lost if a job takes this directory for its unfinished output: it is missing
/// or empty, or holds the journal of a job or a model that dotresize has made: an output shortly
/// before it gets its name, or the one that it has replaced.
bool is_free_partial(const std::filesystem::path& partial);

/// Removes everything in `dir` but its entry `kept` (none: everything), as far as it can; the last
/// error, or none.
std::error_code empty_directory(const std::filesystem::path& dir,
                                const std::filesystem::path& kept = {});

/// Removes what no later job can use of `partial`: everything but a journal with entries, else the
/// directory too, which `parent` holds as `name`.
std::error_code trim_unfinished(const PinnedDirectory& parent, const std::filesystem::path& name,
                                const PinnedDirectory& partial);

/// Removes the directory `name` in `parent` if it is empty.
std::error_code remove_empty_directory(const PinnedDirectory& parent,
                                       const std::filesystem::path& name);

/// Bytes of the files in and below it, as far as it can be read; 0 if there is no such directory.
/// Links count nothing.
int64_t size_of_directory(const std::filesystem::path& dir);

/// `<output>.replaced`: an old output for as long as a new one takes its place.
std::filesystem::path replaced_path(const std::filesystem::path& output);

/// Whether the name of `path` is one of these two of another output.
bool is_unfinished_output(const std::filesystem::path& path);

}  // namespace dotresize
