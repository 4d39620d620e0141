#pragma once

#include <filesystem>

#include "job/spec/token_source.h"

namespace dotresize {

/// What `dotresize verify` is asked for.
struct VerifyRequest {
  std::filesystem::path dir;      ///< output directory of a job
  std::filesystem::path against;  ///< the model that it was made of; empty: not compared
  TokenSource source;             ///< for the comparison; neither text nor tokens: none is given
};

}  // namespace dotresize
