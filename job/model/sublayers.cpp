#include "job/model/sublayers.h"

namespace dotresize {

int64_t layer_of(int64_t sublayer) { return sublayer / 2; }

bool is_attention(int64_t sublayer) { return sublayer % 2 == 0; }

std::string sublayer_name(int64_t sublayer) {
  return "layers." + std::to_string(layer_of(sublayer)) +
         (is_attention(sublayer) ? ".attention" : ".mlp");
}

std::string junction_name(int64_t junction) {
  return junction == 0 ? "embed" : sublayer_name(junction - 1);
}

}  // namespace dotresize
