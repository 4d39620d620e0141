#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace dotresize {

// What is fuzzed: each takes bytes that nobody vouches for. It returns if they are refused as
// promised, or if what they give keeps its promises; anything else ends the program.

/// The header of a safetensors file, or if they begin with '{' an index of such files.
void fuzz_safetensors(const std::string& bytes);
/// A model's config.json; what is accepted is planned.
void fuzz_config(const std::string& bytes);
/// A job file, or a sweep's if it has a section `sweep`.
void fuzz_job_file(const std::string& bytes);
/// A file of tokens.
void fuzz_tokens(const std::string& bytes);
/// The file of --tokens, and the header of a call.
void fuzz_access(const std::string& bytes);
/// The bytes of a client at the HTTP port, up to the end of its side of the connection.
void fuzz_http(const std::string& bytes);
/// Calls of all services: a message of calls.proto, as text or as it goes over the wire.
void fuzz_calls(const std::string& bytes);

/// Ends the program if a promise is broken.
inline void require(bool kept, const std::string& promise) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", promise.c_str());
  std::abort();
}

}  // namespace dotresize
