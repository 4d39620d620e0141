#pragma once

#include <filesystem>
#include <string>

namespace dotresize {

/// What the ranks of one attempt must know to call their server from another machine. A file that
/// only the server's user can read: it has the attempt's secret.
struct AttemptFile {
  std::string coordinator;  ///< HOST:PORT of the Workers service
  std::string ca;           ///< PEM of the authority of its certificate; empty: no TLS
  std::string job_id;
  int attempt = 0;
  std::string token;  ///< secret
};

/// The content of such a file.
std::string attempt_file_text(const AttemptFile& attempt);

/// Throws InputError if the file cannot be read or is none.
AttemptFile read_attempt_file(const std::filesystem::path& path);

}  // namespace dotresize
