#pragma once

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/errors.h"
#include "job/checkpoint/source_model.h"
#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "tests/checkpoint/checkpoint_files.h"
#include "tests/temporary_directory.h"
#include "worker/checkpoint/reader.h"

namespace dotresize {

inline nlohmann::json llama_json() {
  return {{"model_type", "llama"},       {"hidden_size", 8},         {"intermediate_size", 12},
          {"num_hidden_layers", 1},      {"num_attention_heads", 2}, {"vocab_size", 10},
          {"tie_word_embeddings", true}, {"rms_norm_eps", 1e-6},     {"torch_dtype", "bfloat16"}};
}

inline nlohmann::json gpt_oss_json() {
  nlohmann::json config = llama_json();
  config.update({{"model_type", "gpt_oss"},
                 {"num_key_value_heads", 2},
                 {"head_dim", 4},
                 {"hidden_size", 32},
                 {"intermediate_size", 64},
                 {"num_local_experts", 3},
                 {"num_experts_per_tok", 2},
                 {"rope_scaling", {{"rope_type", "default"}}}});
  return config;
}

inline nlohmann::json wrapper_json() {
  nlohmann::json text = llama_json();
  text.erase("torch_dtype");
  return {{"model_type", "llava"},
          {"torch_dtype", "bfloat16"},
          {"tie_word_embeddings", true},
          {"text_config", text},
          {"vision_config", {{"hidden_size", 4}}}};
}

/// Returns a quantization_config of matrices in 8 bits, each with one scale.
inline nlohmann::json int8_by_matrix() {
  return {{"quant_method", "compressed-tensors"},
          {"format", "int-quantized"},
          {"config_groups", {{"one", {{"weights", {{"type", "int"}, {"strategy", "tensor"}}}}}}}};
}

/// Gives the tensors the names of a wrapper's text part, and adds two of other parts.
inline void wrap(NamedTensors& tensors, const std::string& base, const std::string& head) {
  for (auto& [name, tensor] : tensors) {
    name = name.starts_with("lm_head.") ? head + name.substr(8) : base + name.substr(6);
  }
  tensors.emplace_back("vision_tower.weight", at::ones({3, 2}, at::kHalf));
  tensors.emplace_back("vision_tower.position_ids", at::arange(5));
}

/// A model directory, whose weights are numbered so that no two tensors are alike.
class SourceModelTest : public testing::Test {
 protected:
  void write(const nlohmann::json& config, const std::function<void(NamedTensors&)>& bend = {}) {
    const std::string text = config.dump();
    put_file(dir_ / "config.json", text);
    NamedTensors tensors;
    double number = 1;
    for (const auto& [name, shape] : expected_shapes(parse_model_config(text, "config.json"))) {
      tensors.emplace_back(name, at::full(shape, number++, at::kBFloat16));
    }
    if (bend) bend(tensors);
    write_single_file(dir_.path(), tensors);
  }

  SourceModel read() const { return read_source_model(dir_.path()); }
  std::string fault() const {
    try {
      read_model_with_weights(dir_.path());
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }

  const TemporaryDirectory dir_;
};

inline at::Tensor& tensor_of(NamedTensors& tensors, const std::string& name) {
  return std::ranges::find(tensors, name, &std::pair<std::string, at::Tensor>::first)->second;
}

inline constexpr char kExpertPrefix[] = "model.layers.0.mlp.experts.";

}  // namespace dotresize
