#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/output_owner.h"

namespace dotresize {

/// Data that a process of one attempt needs to call its server. On the server's machine the process
/// reads it from its environment. On another machine it reads it from a file that only the server's
/// user can read, because it holds the attempt's secret.
struct AttemptFile {
  std::string coordinator;  ///< gRPC address of the Workers service: unix:/path or HOST:PORT
  std::string ca;           ///< PEM of the CA that signed the server's certificate; empty: no TLS
  std::string job_id;
  int attempt = 0;
  std::string token;  ///< secret
  std::vector<std::string>
      roots;  ///< directories that the process may read and write for the job; empty: any
  OutputRights rights = {};
};

/// Returns the content of an attempt file.
std::string attempt_file_text(const AttemptFile& attempt);

/// Throws InputError if the file cannot be read or is not an attempt file.
AttemptFile read_attempt_file(const std::filesystem::path& path);

/// Reads the attempt from the environment. Returns nothing if this process runs without a server.
std::optional<AttemptFile> attempt_from_environment();

/// Returns the environment setting DOTRESIZE_ALLOWED_ROOTS=[...] for `roots`.
std::string roots_variable(const std::vector<std::string>& roots);

/// Reads DOTRESIZE_ALLOWED_ROOTS, also without a server; empty: every path is allowed. Throws
/// InputError if the value is not a list.
std::vector<std::string> roots_from_environment();

}  // namespace dotresize
