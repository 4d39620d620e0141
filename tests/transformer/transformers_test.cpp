// The dense forward pass against the logits that transformers gave for the same models
// (make_models.py).

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "job/model/tensor_table.h"
#include "tests/transformer/whole_model.h"
#include "worker/checkpoint/reader.h"

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
  EXPECT_LT(largest_difference(logits(model, expected_.tensor("ids")), expected_.tensor("logits")),
            1e-4);
}

TEST_P(Transformers, StoresTheExpectedTensors) {
  const ModelConfig config = read_model_config(dir_);
  const CheckpointReader reader(dir_);
  std::map<std::string, std::vector<int64_t>> stored;
  for (const std::string& name : reader.names()) stored[name] = reader.shape(name);
  EXPECT_EQ(expected_shapes(config), stored);
}

INSTANTIATE_TEST_SUITE_P(Models, Transformers, ::testing::ValuesIn(model_names()),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace dotresize::testing
