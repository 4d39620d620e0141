#include "job/plan/healing.h"

namespace dotresize {

std::vector<StoredTensor> updated_tensors(const ModelConfig& config, int64_t sublayer) {
  std::vector<StoredTensor> updated;
  const bool mixture = config.is_mixture(sublayer);
  for (const TensorRole role : {TensorRole::kInProjWeight, TensorRole::kOutProjWeight}) {
    for (const StoredTensor& stored : sublayer_tensors(config, sublayer)) {
      const bool router = mixture && role == TensorRole::kInProjWeight && stored.index == 0;
      if (stored.role == role && !router) updated.push_back(stored);
    }
  }
  return updated;
}

int64_t update_parameters(const ModelConfig& config, int64_t sublayer) {
  int64_t parameters = 0;
  for (const StoredTensor& weight : updated_tensors(config, sublayer)) {
    const int64_t out = weight.shape.at(0);
    const int64_t in = weight.shape.at(1);
    parameters += std::min({kUpdateRank, out, in}) * (out + in);
  }
  return parameters;
}

}  // namespace dotresize
