#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace dotresize {

/// The job and attempt of a server that make an output. The file lies in the unfinished output's
/// journal, then in the whole output's `dotresize` folder. So the output and its owner appear in
/// one step.
struct OutputOwner {
  std::string job_id;  ///< empty: made without a server
  int attempt = 0;
};

/// Writes DIR/owner.json. Throws std::system_error.
void write_output_owner(const std::filesystem::path& dir, const OutputOwner& owner);

/// Reads DIR/owner.json; nothing if it is missing or damaged. Does not follow a link in its place.
std::optional<OutputOwner> read_output_owner(const std::filesystem::path& dir);

/// Owner of the output at `output`; nothing if no server's job has made it.
std::optional<OutputOwner> owner_of_output(const std::filesystem::path& output);

/// Owner of the unfinished output at `partial`.
std::optional<OutputOwner> owner_of_partial(const std::filesystem::path& partial);

}  // namespace dotresize
