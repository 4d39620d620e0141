#include "worker/transformer/read_parts.h"

#include <ATen/ATen.h>

namespace dotresize {

std::vector<at::Tensor> read_parts(const std::vector<Linear>& readers, const at::Tensor& x,
                                   at::IntArrayRef widths) {
  if (readers.size() == 1) {
    return at::linear(x, readers[0].weight, readers[0].bias).split_with_sizes(widths, /*dim=*/-1);
  }
  std::vector<at::Tensor> parts;
  for (const Linear& reader : readers) {
    parts.push_back(at::linear(x, reader.weight, reader.bias));
  }
  return parts;
}

}  // namespace dotresize
