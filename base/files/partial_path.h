#pragma once

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "base/files/directory.h"

namespace dotresize {

/// `<output>.partial`: the directory of an unfinished output. "out/" counts as "out".
std::filesystem::path partial_path(const std::filesystem::path& output);

/// Directory in the unfinished output with the job's results so far
/// (worker/calibration/storage/journal.h), and the file in it that identifies the job.
inline constexpr char kJournalDirectory[] = "journal";
inline constexpr char kJournalOfJob[] = "job.json";
/// File with the mark of whose output it is (output_owner.h).
inline constexpr char kOwnerOfOutput[] = "owner.json";

/// Directory with the report in a model directory that dotresize has made, and its files. Every
/// output has kReportFile.
inline constexpr char kReportDirectory[] = "dotresize";
inline constexpr char kReportFile[] = "report.json";
inline constexpr char kMapsFile[] = "maps.safetensors";

/// True if dotresize has made this directory. Only such a directory is ever overwritten.
bool is_model_of_dotresize(const std::filesystem::path& dir);

/// True if this is such a directory and none of its files is missing: the last one, SHA256SUMS, is
/// written when all others are on disk.
bool is_complete_output(const std::filesystem::path& dir);

/// True if the directory is empty, or holds only an empty journal or one whose owner file was never
/// completed. Then it belongs to nobody.
bool is_empty_partial(const std::filesystem::path& partial);

/// True if a job can use this directory for its unfinished output without loss. It is missing or
/// empty, holds a job's journal, or is a model that dotresize has made: an output about to be
/// renamed, or a replaced one.
bool is_free_partial(const std::filesystem::path& partial);

/// Removes everything in `dir` except its entry `kept` (empty: everything), as far as possible.
/// Returns the last error, if any.
std::error_code empty_directory(const std::filesystem::path& dir,
                                const std::filesystem::path& kept = {});

/// Removes everything in `partial` that no later job can use: all but a journal with entries. If
/// there is no such journal, removes the directory too, which is `name` in `parent`. Leaves a
/// complete output alone, which lacks only its name.
std::error_code trim_unfinished(const PinnedDirectory& parent, const std::filesystem::path& name,
                                const PinnedDirectory& partial);

/// Removes the directory `name` in `parent` if it is empty.
std::error_code remove_empty_directory(const PinnedDirectory& parent,
                                       const std::filesystem::path& name);

/// Sums the bytes of the files in and below `dir`, as far as it is readable; 0 if it is missing.
/// Links count as 0.
int64_t size_of_directory(const std::filesystem::path& dir);

/// `<output>.replaced`: the old output while a new one takes its place.
std::filesystem::path replaced_path(const std::filesystem::path& output);

/// True if `path` has the name of a partial_path() or replaced_path().
bool is_unfinished_output(const std::filesystem::path& path);

}  // namespace dotresize
