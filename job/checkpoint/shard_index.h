#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace dotresize {

/// Largest size of a model.safetensors.index.json.
inline constexpr uint64_t kMaxIndexBytes = 100'000'000;

/// Parses the text of a model.safetensors.index.json: tensor name to file name. `origin` names it
/// in errors. Throws InputError for malformed JSON, a repeated tensor, an index without tensors, or
/// a file name that is not a plain name in the index's own directory.
std::map<std::string, std::string> parse_shard_index(const std::string& text,
                                                     const std::string& origin);

}  // namespace dotresize
