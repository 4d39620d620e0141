#pragma once

#include <cstdint>
#include <string>

namespace dotresize {

// Sublayer 2l is the attention of layer l, sublayer 2l+1 its MLP. Junction 0 is the embedding's
// output, junction s+1 that of sublayer s.

int64_t layer_of(int64_t sublayer);
bool is_attention(int64_t sublayer);
/// "layers.3.attention", "layers.3.mlp".
std::string sublayer_name(int64_t sublayer);
/// "embed" for junction 0, else the name of the sublayer that writes it.
std::string junction_name(int64_t junction);

}  // namespace dotresize
