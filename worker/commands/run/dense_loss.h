#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "worker/comm/communicator.h"
#include "worker/evaluation/perplexity.h"

namespace dotresize {

// A file with the dense model's loss, shared by jobs that are evaluated on the same tokens
// (`dotresize-worker --dense-loss FILE`). It is JSON with the loss and the fingerprint of its
// inputs (dense_loss_fingerprint).

/// Returns the file's loss on every rank; nothing if there is no file. Throws InputError if the
/// file is damaged, or belongs to another model or other tokens. Collective.
std::optional<NegativeLogLikelihood> read_dense_loss(Communicator& comm,
                                                     const std::filesystem::path& file,
                                                     const nlohmann::json& fingerprint);

/// Writes the file whole or not at all. Throws std::system_error.
void write_dense_loss(const std::filesystem::path& file, const nlohmann::json& fingerprint,
                      const NegativeLogLikelihood& loss);

}  // namespace dotresize
