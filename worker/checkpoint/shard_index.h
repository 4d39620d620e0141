#pragma once

#include <map>
#include <string>

namespace dotresize {

/// Reads a model.safetensors.index.json: tensor name to file name. Throws InputError for malformed
/// JSON, a repeated tensor, an index without tensors, a file of more than 100 MB, or a file name
/// that is not a plain name in the index's own directory.
std::map<std::string, std::string> read_shard_index(const std::string& path);

/// Version that parses text; `origin` names it in errors.
std::map<std::string, std::string> parse_shard_index(const std::string& text,
                                                     const std::string& origin);

}  // namespace dotresize
