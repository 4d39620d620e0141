#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/partial_path.h"

namespace dotresize {

/// Mark in a directory that a server's job makes: whose it is. It lies in an unfinished output's
/// journal, then in the whole output's `dotresize` folder, so that the output and its mark appear
/// in one step; in the directory of a sweep or of statistics it lies at the top.
struct OutputOwner {
  std::string job_id;  ///< empty: made without a server
  int attempt = 0;
  std::string name = {};  ///< NAME of the owner's token; empty: made where nobody has a token
};

/// Writes DIR/owner.json. Throws std::system_error.
void write_output_owner(const std::filesystem::path& dir, const OutputOwner& owner);

/// Reads DIR/owner.json; nothing if it is missing or damaged. Does not follow a link in its place.
std::optional<OutputOwner> read_output_owner(const std::filesystem::path& dir);

/// Owner of the output at `output`; nothing if no server's job has made it.
std::optional<OutputOwner> owner_of_output(const std::filesystem::path& output);

/// Owner of the unfinished output at `partial`.
std::optional<OutputOwner> owner_of_partial(const std::filesystem::path& partial);

/// Rights of a job over directories that exist. A server gives them to each attempt; no job file
/// can.
struct OutputRights {
  OutputOwner owner = {};  ///< mark of what the job makes
  bool any = true;  ///< may replace everybody's: without a server, without tokens, for admins

  /// True if the job may replace or continue what has this mark. Nothing but `any` covers what has
  /// none.
  bool cover(const std::optional<OutputOwner>& mark) const;
};

/// Rights as JSON, {"job_id", "attempt", "owner", "any"}, and back. Throws InputError.
std::string rights_text(const OutputRights& rights);
OutputRights parse_rights(const std::string& text);

/// Returns the environment setting DOTRESIZE_OUTPUT_RIGHTS={...}.
std::string rights_variable(const OutputRights& rights);
/// Reads DOTRESIZE_OUTPUT_RIGHTS; without it a program may replace everybody's outputs, as far as
/// the system lets its user. Throws InputError.
OutputRights rights_from_environment();

/// Directory that keeps a job from a path.
struct ForeignPlace {
  std::filesystem::path directory;
  std::string owner;  ///< empty: it has no mark, or that of a job without an owner
};

/// Returns what these rights do not cover: a directory at `path` that is not empty, or one around
/// it that has a mark.
std::optional<ForeignPlace> foreign_place(const std::filesystem::path& path,
                                          const OutputRights& rights);

/// Text on a directory that rights do not cover, which follows its name.
std::string ownership_fault(const std::string& owner);

}  // namespace dotresize
