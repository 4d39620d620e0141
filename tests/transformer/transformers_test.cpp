// Compares the dense forward pass with the logits of transformers for the same models
// (make_models.py), and the gradients of the loss with those of its autograd.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files/input_file.h"
#include "job/model/output_config.h"
#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "tests/transformer/whole_model.h"
#include "worker/checkpoint/reader.h"
#include "worker/evaluation/whole_model.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/gradient/backward.h"
#include "worker/transformer/gradient/loss_gradient.h"
#include "worker/transformer/linear.h"
#include "worker/transformer/stage/stage.h"

namespace dotresize::testing {
namespace {

std::vector<std::string> model_names() {
  const char* root = std::getenv("DOTRESIZE_TEST_MODELS");
  std::vector<std::string> names;
  if (root == nullptr) return names;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Models, WereMade) {
  EXPECT_FALSE(model_names().empty())
      << "DOTRESIZE_TEST_MODELS is to name make_models.py's OUT_DIR";
}

class Transformers : public ::testing::TestWithParam<std::string> {
 protected:
  const std::filesystem::path dir_ =
      std::filesystem::path(std::getenv("DOTRESIZE_TEST_MODELS")) / GetParam();
  const SafetensorsFile expected_{dir_ / "expected.safetensors"};
  const c10::InferenceMode inference_;
};

TEST_P(Transformers, GivesTheSameLogits) {
  const WholeModel model = load_model(dir_);
  const double difference =
      largest_difference(logits(model, expected_.tensor("ids")), expected_.tensor("logits"));
  RecordProperty("difference", std::to_string(1e9 * difference));  // read by family_table.py
  EXPECT_LT(difference, 1e-4);
}

TEST_P(Transformers, GivesTheSameGradients) {
  const c10::InferenceMode with_autograd(false);
  const c10::NoGradGuard no_grad;
  const WholeModel model = load_model(dir_);
  const at::Tensor ids = expected_.tensor("ids");
  const LayerContext context = make_layer_context(model.config, ids.size(1));
  std::vector<at::Tensor> x = {embed(model.embedding, ids)};
  for (const SublayerWeights& weights : model.sublayers) {
    x.push_back(sublayer_forward(model.config, weights, context, x.back()));
  }
  const at::Tensor labels = expected_.tensor("labels").reshape(-1);
  const at::Tensor probabilities =
      head_forward(model.config, model.head, x.back()).view({labels.size(0), -1}).softmax(1);
  at::Tensor g = loss_gradient(model.config, model.head, x.back(),
                               numbers_that_draw(labels, probabilities.to(at::kDouble)));
  double largest = 0.0;
  for (int64_t junction = model.config.num_sublayers();; --junction) {
    const at::Tensor expected = expected_.tensor("gradients")[junction];
    const double difference = largest_difference(g, expected) / expected.abs().max().item<double>();
    EXPECT_LT(difference, 1e-4) << junction_name(junction);
    largest = std::max(largest, difference);
    if (junction == 0) break;
    const auto reader = static_cast<size_t>(junction - 1);
    const SublayerWeights& weights = model.sublayers[reader];
    const SublayerGraph graph = sublayer_graph(model.config, weights, context, x[reader]);
    EXPECT_TRUE(at::equal(graph.output, x[reader + 1])) << sublayer_name(weights.sublayer);
    g = gradients_through(graph, weights, g).input;
  }
  RecordProperty("difference", std::to_string(1e9 * largest));
}

TEST_P(Transformers, ErrorsInFrontOfANormCountByWhatItReads) {
  const c10::InferenceMode with_autograd(false);
  const c10::NoGradGuard no_grad;
  const WholeModel model = load_model(dir_);
  const at::Tensor ids = expected_.tensor("ids");
  const LayerContext context = make_layer_context(model.config, ids.size(1));
  at::Tensor x = embed(model.embedding, ids);
  for (const SublayerWeights& weights : model.sublayers) {
    std::vector<at::Tensor> seen;
    const SublayerGraph graph =
        sublayer_graph(model.config, weights, context, x,
                       [&](int64_t, const at::Tensor& h) { seen.push_back(h); });
    x = graph.output.detach();
    if (!weights.post_norm.defined()) continue;
    ASSERT_EQ(seen.size(), 1U);
    const at::Tensor u = graph.update.detach();
    const at::Tensor read = seen.front() / graph.factor;
    EXPECT_LT(largest_difference(apply_linear(weights.out_proj.at(0), read), u), 1e-4);
    const at::Tensor squares = (u * graph.factor).square().mean(-1);
    EXPECT_LT(largest_difference(squares, at::ones_like(squares)), 0.02);
    const at::Tensor g = at::randn_like(x);
    const at::Tensor of_update = torch::autograd::grad({graph.output}, {graph.update}, {g},
                                                       /*retain_graph=*/true)
                                     .front();
    const at::Tensor found = gradients_through(graph, weights, g).update * graph.factor;
    EXPECT_LT(largest_difference(found, of_update), 1e-4 * of_update.abs().max().item<double>());
  }
}

TEST_P(Transformers, StoresTheExpectedTensors) {
  const ModelConfig config = read_model_config(dir_);
  const CheckpointReader reader(dir_);
  std::map<std::string, std::vector<int64_t>> stored;
  for (const std::string& name : reader.names()) stored[name] = reader.shape(name);
  EXPECT_EQ(expected_shapes(config), stored);
}

TEST_P(Transformers, OutputsStateTheSameLayers) {
  const std::string text = read_whole_file(dir_ / "config.json", kMaxConfigBytes);
  const ModelConfig source = parse_model_config(text, "config.json");
  const ModelConfig output = parse_model_config(output_config_json(text, source), "config.json");
  EXPECT_EQ(output.layers, source.layers);
  EXPECT_EQ(output.rotaries, source.rotaries);
  EXPECT_EQ(output.logit_cap, source.logit_cap);
}

INSTANTIATE_TEST_SUITE_P(Models, Transformers, ::testing::ValuesIn(model_names()),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace dotresize::testing
