#pragma once

#include <google/protobuf/map.h>

#include <string>
#include <vector>

namespace dotresize {

/// Adds the labels given by --label, each "KEY=VALUE". Throws InputError for any other text.
void add_labels(const std::vector<std::string>& texts,
                google::protobuf::Map<std::string, std::string>& labels);

}  // namespace dotresize
