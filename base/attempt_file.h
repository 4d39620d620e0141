#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dotresize {

/// What a process of one attempt must know to call its server. On the server's machine it has it
/// from its environment, on another one from a file that only the server's user can read: it has
/// the attempt's secret.
struct AttemptFile {
  std::string coordinator;  ///< as gRPC names it: unix:/path or HOST:PORT of the Workers service
  std::string ca;           ///< PEM of the authority of its certificate; empty: no TLS
  std::string job_id;
  int attempt = 0;
  std::string token;  ///< secret
  std::vector<std::string>
      roots;  ///< where it may read and write what the job names; none: anywhere
};

/// The content of such a file.
std::string attempt_file_text(const AttemptFile& attempt);

/// Throws InputError if the file cannot be read or is none.
AttemptFile read_attempt_file(const std::filesystem::path& path);

/// What the environment says; nothing if this process runs without a server.
std::optional<AttemptFile> attempt_from_environment();

/// The environment variable DOTRESIZE_ALLOWED_ROOTS=[...] that says `roots`.
std::string roots_variable(const std::vector<std::string>& roots);

/// What it says here, also without a server; none: anywhere. Throws InputError if it is no list.
std::vector<std::string> roots_from_environment();

}  // namespace dotresize
