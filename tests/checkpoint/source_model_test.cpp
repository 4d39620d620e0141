#include "job/checkpoint/source_model.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "tests/checkpoint/checkpoint_files.h"
#include "tests/temporary_directory.h"
#include "worker/checkpoint/reader.h"

namespace dotresize {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

json llama() {
  return {{"model_type", "llama"},       {"hidden_size", 8},         {"intermediate_size", 12},
          {"num_hidden_layers", 1},      {"num_attention_heads", 2}, {"vocab_size", 10},
          {"tie_word_embeddings", true}, {"rms_norm_eps", 1e-6},     {"torch_dtype", "bfloat16"}};
}

json mixtral() {
  json config = llama();
  config.update({{"model_type", "mixtral"},
                 {"num_key_value_heads", 2},
                 {"num_local_experts", 3},
                 {"num_experts_per_tok", 2}});
  return config;
}

/// A model directory, whose weights are numbered so that no two tensors are alike.
class SourceModelTest : public testing::Test {
 protected:
  void write(const json& config, const std::function<void(NamedTensors&)>& bend = {}) {
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

at::Tensor& tensor_of(NamedTensors& tensors, const std::string& name) {
  return std::ranges::find(tensors, name, &std::pair<std::string, at::Tensor>::first)->second;
}

TEST_F(SourceModelTest, AModelAsTransformersWritesItHasNoWarnings) {
  write(llama());
  EXPECT_THAT(read().warnings, IsEmpty());
  EXPECT_EQ(read().config.dtypes, (StoredDtypes{Dtype::kBFloat16, {}}));
}

TEST_F(SourceModelTest, DtypesAreThoseOfTheTensors) {
  json config = llama();
  config["torch_dtype"] = "float32";
  write(config);
  EXPECT_EQ(read().config.dtypes.main, Dtype::kBFloat16);
  EXPECT_THAT(read().warnings,
              ElementsAre(HasSubstr("config.json says float32, and the tensors are bfloat16")));
  write(llama(), [](NamedTensors& tensors) {
    at::Tensor& table = tensor_of(tensors, "model.embed_tokens.weight");
    table = table.to(at::kFloat);
  });
  const StoredDtypes dtypes = read().config.dtypes;
  EXPECT_EQ(dtypes.main, Dtype::kBFloat16);
  EXPECT_EQ(dtypes.of("model.embed_tokens.weight"), Dtype::kFloat32);
  EXPECT_EQ(dtypes.others.size(), 1u);
}

TEST_F(SourceModelTest, NamesOfABaseModelAreCompleted) {
  write(llama(), [](NamedTensors& tensors) {
    for (auto& [name, tensor] : tensors) name = name.substr(std::string("model.").size());
  });
  const SourceModel model = read();
  EXPECT_EQ(model.table->tensors.at("model.norm.weight").stored_name, "norm.weight");
  const CheckpointReader reader(dir_.path(), model.config);
  EXPECT_TRUE(reader.has("model.layers.0.self_attn.q_proj.weight"));
}

TEST_F(SourceModelTest, FusedExpertsAreTakenApart) {
  write(mixtral());
  const SourceModel apart = read();
  const auto matrix = [&](const char* name) {
    const TensorPlace& place = apart.table->tensors.at(name);
    return CheckpointReader(dir_.path(), apart.config).get(name, place.shape).clone();
  };
  const std::string block = "model.layers.0.block_sparse_moe.";
  std::map<std::string, at::Tensor> expected;
  for (const auto& entry : apart.table->tensors) {
    expected.emplace(entry.first, matrix(entry.first.c_str()));
  }
  write(mixtral(), [&](NamedTensors& tensors) {
    std::vector<at::Tensor> in;
    std::vector<at::Tensor> out;
    for (int expert = 0; expert < 3; ++expert) {
      const std::string prefix = block + "experts." + std::to_string(expert);
      in.push_back(
          at::cat({expected.at(prefix + ".w1.weight"), expected.at(prefix + ".w3.weight")}));
      out.push_back(expected.at(prefix + ".w2.weight"));
    }
    std::erase_if(tensors, [&](const auto& entry) { return entry.first.starts_with(block); });
    const std::string mlp = "model.layers.0.mlp.";
    tensors.emplace_back(mlp + "gate.weight", expected.at(block + "gate.weight"));
    tensors.emplace_back(mlp + "experts.gate_up_proj", at::stack(in));
    tensors.emplace_back(mlp + "experts.down_proj", at::stack(out));
  });
  const SourceModel fused = read();
  EXPECT_THAT(fused.warnings, IsEmpty());
  const CheckpointReader reader(dir_.path(), fused.config);
  for (const auto& [name, tensor] : expected) {
    EXPECT_TRUE(at::equal(reader.get(name, tensor.sizes()), tensor)) << name;
  }
}

TEST_F(SourceModelTest, ATiedHeadMustBeTheEmbedding) {
  const auto with_head = [](at::Tensor head) {
    return [head](NamedTensors& tensors) { tensors.emplace_back("lm_head.weight", head); };
  };
  at::Tensor table;
  write(llama(), [&](NamedTensors& tensors) {
    table = tensor_of(tensors, "model.embed_tokens.weight");
    with_head(table)(tensors);
  });
  EXPECT_EQ(fault(), "accepted");
  write(llama(), with_head(table + 1));
  EXPECT_THAT(fault(), AllOf(HasSubstr("tie_word_embeddings: is true"),
                             HasSubstr("other values than the embedding"),
                             HasSubstr("\"tie_word_embeddings\": false")));
  // transformers 5 ties the two in this direction too.
  write(llama(), [](NamedTensors& tensors) {
    std::ranges::find(tensors, "model.embed_tokens.weight",
                      &std::pair<std::string, at::Tensor>::first)
        ->first = "lm_head.weight";
  });
  EXPECT_EQ(fault(), "accepted");
}

TEST_F(SourceModelTest, WhatIsStoredInPlaceOfAMissingTensorIsSaid) {
  const auto prefixed = [](const std::string& prefix) {
    return [prefix](NamedTensors& tensors) {
      for (auto& [name, tensor] : tensors) name = prefix + name;
    };
  };
  write(llama(), prefixed("_orig_mod."));
  EXPECT_THAT(fault(), HasSubstr("as torch.compile gives them"));
  write(llama(), prefixed("base_model.model."));
  EXPECT_THAT(fault(), HasSubstr("merge_and_unload"));
  write(llama(), [](NamedTensors& tensors) {
    auto& [name, tensor] = tensors.at(2);
    name.replace(name.rfind("weight"), 6, "qweight");
  });
  EXPECT_THAT(fault(), HasSubstr("quantised weights, as GPTQ or AWQ stores them"));
  json untied = llama();
  untied["tie_word_embeddings"] = false;
  write(untied, [](NamedTensors& tensors) {
    std::erase_if(tensors, [](const auto& entry) { return entry.first == "lm_head.weight"; });
  });
  EXPECT_THAT(fault(), HasSubstr("\"tie_word_embeddings\": true"));
}

TEST_F(SourceModelTest, ADirectoryWithoutWeightsSaysWhatItHas) {
  const auto advice_beside = [&](const std::string& file) {
    const TemporaryDirectory dir;
    put_file(dir / "config.json", llama().dump());
    put_file(dir / file, "");
    try {
      read_model_with_weights(dir.path());
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(advice_beside("m-q4.gguf"), HasSubstr("that the GGUF file was made from"));
  EXPECT_THAT(advice_beside("consolidated.safetensors"), HasSubstr("Mistral's or Meta's own"));
  EXPECT_THAT(advice_beside("pytorch_model-00001-of-00002.bin"), HasSubstr("save_pretrained"));
  put_file(dir_ / "config.json", llama().dump());
  put_file(dir_ / "model.safetensors",
           "version https://git-lfs.github.com/spec/v1\noid sha256:1\n");
  EXPECT_THAT(fault(), HasSubstr("git lfs pull"));
}

TEST_F(SourceModelTest, AnAdapterIsRefusedAndOtherWeightsAreNamed) {
  write(llama());
  put_file(dir_ / "model-00001-of-00006.safetensors", "");
  put_file(dir_ / "README.md", "");
  put_file(dir_ / "consolidated.safetensors", "");
  EXPECT_THAT(read().warnings,
              ElementsAre(AllOf(HasSubstr("model-00001-of-00006.safetensors: not read"),
                                Not(HasSubstr("consolidated")))));
  put_file(dir_ / "adapter_config.json", "{}");
  EXPECT_THAT(fault(), HasSubstr("transformers with peft adds this adapter"));
}

TEST_F(SourceModelTest, UnknownKeysAndTensorsAreNamed) {
  json config = llama();
  config["embedding_multiplier"] = 12;
  config["use_cache"] = true;
  write(config, [](NamedTensors& tensors) {
    tensors.emplace_back("model.layers.0.self_attn.q_norm.weight", at::ones({4}));
    tensors.emplace_back("model.layers.0.self_attn.rotary_emb.inv_freq", at::ones({2}));
  });
  EXPECT_THAT(read().warnings,
              ElementsAre(AllOf(HasSubstr("embedding_multiplier"), Not(HasSubstr("use_cache"))),
                          AllOf(HasSubstr("q_norm.weight'"), Not(HasSubstr("inv_freq")))));
}

TEST_F(SourceModelTest, AnIndexNeedNotListWhatIsComputed) {
  write(llama());
  const SourceModel whole = read();
  json index = {{"weight_map", json::object()}};
  for (const auto& entry : whole.table->tensors) {
    index["weight_map"][entry.first] = "model-00001-of-00001.safetensors";
  }
  index["weight_map"]["model.layers.0.self_attn.rotary_emb.inv_freq"] =
      "model-00001-of-00001.safetensors";
  std::filesystem::rename(dir_ / "model.safetensors", dir_ / "model-00001-of-00001.safetensors");
  put_file(dir_ / "model.safetensors.index.json", index.dump());
  EXPECT_EQ(fault(), "accepted");
}

}  // namespace
}  // namespace dotresize
