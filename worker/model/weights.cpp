#include "worker/model/weights.h"

namespace dotresize {
namespace {

at::Tensor to_dtype(const at::Tensor& tensor, at::ScalarType dtype) {
  return tensor.defined() ? tensor.to(dtype) : tensor;
}

Linear to_dtype(const Linear& linear, at::ScalarType dtype) {
  return {to_dtype(linear.weight, dtype), to_dtype(linear.bias, dtype)};
}

}  // namespace

SublayerWeights to_dtype(const SublayerWeights& weights, at::ScalarType dtype) {
  SublayerWeights converted;
  converted.sublayer = weights.sublayer;
  converted.norm = to_dtype(weights.norm, dtype);
  for (const Linear& reader : weights.readers) {
    converted.readers.push_back(to_dtype(reader, dtype));
  }
  for (const at::Tensor& norm : weights.head_norms) {
    converted.head_norms.push_back(to_dtype(norm, dtype));
  }
  for (const Linear& writer : weights.writers) {
    converted.writers.push_back(to_dtype(writer, dtype));
  }
  converted.shortcut = to_dtype(weights.shortcut, dtype);
  return converted;
}

}  // namespace dotresize
