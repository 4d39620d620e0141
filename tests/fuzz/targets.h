#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace dotresize {

// Fuzz targets, which take untrusted bytes. A target returns if the bytes are refused as
// documented, or if the result keeps its promises. Anything else ends the program.

/// The header of a safetensors file, or an index of such files if the bytes begin with '{'.
void fuzz_safetensors(const std::string& bytes);
/// A model's config.json. Accepted models are planned.
void fuzz_config(const std::string& bytes);
/// A job file, or a sweep file if it has a section `sweep`.
void fuzz_job_file(const std::string& bytes);
/// A token file for calibration or evaluation.
void fuzz_tokens(const std::string& bytes);
/// The file of --tokens and the header of a call.
void fuzz_access(const std::string& bytes);
/// Bytes that a client sends to the HTTP port before it closes its side.
void fuzz_http(const std::string& bytes);
/// Calls of all services: a message of calls.proto, as text or in wire format.
void fuzz_calls(const std::string& bytes);

/// Ends the program if a promise is broken.
inline void require(bool kept, const std::string& promise) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", promise.c_str());
  std::abort();
}

}  // namespace dotresize
