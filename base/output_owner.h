#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace dotresize {

/// Which attempt of which job of a server makes an output. It lies in the unfinished output's
/// journal and, once the output is whole, in its `dotresize` folder: the output and the news of who
/// has made it appear in one step.
struct OutputOwner {
  std::string job_id;  ///< empty: made without a server
  int attempt = 0;
};

/// Writes DIR/owner.json. Throws std::system_error.
void write_output_owner(const std::filesystem::path& dir, const OutputOwner& owner);

/// Nothing if there is no such file, or if it is damaged. Does not follow a link in its place.
std::optional<OutputOwner> read_output_owner(const std::filesystem::path& dir);

/// The owner of what lies at OUTPUT, if a job of a server has made it.
std::optional<OutputOwner> owner_of_output(const std::filesystem::path& output);

/// The owner of the unfinished output PARTIAL.
std::optional<OutputOwner> owner_of_partial(const std::filesystem::path& partial);

}  // namespace dotresize
