#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "worker/comm/communicator.h"
#include "worker/evaluation/perplexity.h"

namespace dotresize {

// A file with the dense model's loss, for jobs that are evaluated on the same tokens
// (`dotresize-worker --dense-loss FILE`). It is JSON: the loss, and what it is of
// (dense_loss_fingerprint).

/// On every rank; nothing if there is no such file. Throws InputError if it is the loss of another
/// model or of other tokens, or damaged. Collective.
std::optional<NegativeLogLikelihood> read_dense_loss(Communicator& comm,
                                                     const std::filesystem::path& file,
                                                     const nlohmann::json& fingerprint);

/// Writes it whole or not at all. Throws std::system_error.
void write_dense_loss(const std::filesystem::path& file, const nlohmann::json& fingerprint,
                      const NegativeLogLikelihood& loss);

}  // namespace dotresize
