#pragma once

#include <map>
#include <string>

namespace dotresize {

/// Reads a model.safetensors.index.json: tensor name to file name. Throws InputError for malformed
/// JSON, a tensor that is named twice, no tensors at all, a file of more than 100 MB, or a file
/// name that is not a plain one within the index's own directory.
std::map<std::string, std::string> read_shard_index(const std::string& path);

/// The same from text; `origin` names it in errors.
std::map<std::string, std::string> parse_shard_index(const std::string& text,
                                                     const std::string& origin);

}  // namespace dotresize
