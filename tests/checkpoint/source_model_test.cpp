#include "tests/checkpoint/source_model.h"

namespace dotresize {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(SourceModelTest, AModelAsTransformersWritesItHasNoWarnings) {
  write(llama_json());
  EXPECT_THAT(read().warnings, IsEmpty());
  EXPECT_EQ(read().config.files.dtypes, (StoredDtypes{Dtype::kBFloat16, {}}));
}

TEST_F(SourceModelTest, DtypesAreThoseOfTheTensors) {
  json config = llama_json();
  config["torch_dtype"] = "float32";
  write(config);
  EXPECT_EQ(read().config.files.dtypes.main, Dtype::kBFloat16);
  EXPECT_THAT(read().warnings,
              ElementsAre(HasSubstr("config.json says float32, and the tensors are bfloat16")));
  write(llama_json(), [](NamedTensors& tensors) {
    at::Tensor& table = tensor_of(tensors, "model.embed_tokens.weight");
    table = table.to(at::kFloat);
  });
  const StoredDtypes dtypes = read().config.files.dtypes;
  EXPECT_EQ(dtypes.main, Dtype::kBFloat16);
  EXPECT_EQ(dtypes.of("model.embed_tokens.weight"), Dtype::kFloat32);
  EXPECT_EQ(dtypes.others.size(), 1u);
}

TEST_F(SourceModelTest, NamesOfABaseModelAreCompleted) {
  write(llama_json(), [](NamedTensors& tensors) {
    for (auto& [name, tensor] : tensors) name = name.substr(std::string("model.").size());
  });
  const SourceModel model = read();
  EXPECT_EQ(model.table->tensors.at("model.norm.weight").stored_name, "norm.weight");
  const CheckpointReader reader(dir_.path(), model.config);
  EXPECT_TRUE(reader.has("model.layers.0.self_attn.q_proj.weight"));
}

json mixtral_json() {
  json config = llama_json();
  config.update({{"model_type", "mixtral"},
                 {"num_key_value_heads", 2},
                 {"num_local_experts", 3},
                 {"num_experts_per_tok", 2}});
  return config;
}

TEST_F(SourceModelTest, FusedExpertsAreTakenApart) {
  write(mixtral_json());
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
  write(mixtral_json(), [&](NamedTensors& tensors) {
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

/// Returns the matrix of an expert as it is computed with, [out, in].
at::Tensor expert(const at::Tensor& stacked, int64_t number) { return stacked[number].t(); }

TEST_F(SourceModelTest, ATensorOfAllExpertsIsSeenAsOneOfEach) {
  const std::string in = std::string(kExpertPrefix) + "gate_up_proj";
  const std::string out = std::string(kExpertPrefix) + "down_proj";
  const at::Tensor gate_up = at::arange(3 * 32 * 128, at::kFloat).view({3, 32, 128});
  const at::Tensor bias = at::arange(3 * 128, at::kFloat).view({3, 128});
  const auto bend = [&](NamedTensors& tensors) {
    for (auto& entry : tensors) entry.second = entry.second.to(at::kFloat);
    tensor_of(tensors, in) = gate_up;
    tensor_of(tensors, in + "_bias") = bias;
  };
  write(gpt_oss_json(), bend);
  const SourceModel model = read();
  const CheckpointReader reader(dir_.path(), model.config);
  EXPECT_FALSE(reader.has(in));
  for (int64_t number = 0; number < 3; ++number) {
    const std::string name = kExpertPrefix + std::to_string(number) + ".";
    EXPECT_TRUE(
        at::equal(reader.get(name + "gate_up_proj.weight", {128, 32}), expert(gate_up, number)));
    EXPECT_TRUE(at::equal(reader.get(name + "gate_up_proj.bias", {128}), bias[number]));
    EXPECT_EQ(reader.shape(name + "down_proj.weight"), (std::vector<int64_t>{32, 64}));
  }
  write(gpt_oss_json(), [&](NamedTensors& tensors) {
    bend(tensors);
    tensor_of(tensors, out) = at::ones({3, 32, 64});
  });
  EXPECT_THAT(fault(), HasSubstr("tensor 'model.layers.0.mlp.experts.down_proj' has shape [3, 32, "
                                 "64], expected [3, 64, 32]"));
  write(gpt_oss_json(),
        [&](NamedTensors& tensors) { tensor_of(tensors, in + "_bias") = bias.to(at::kHalf)[0]; });
  EXPECT_THAT(fault(), HasSubstr("gate_up_proj_bias' has shape [128], expected [3, 128]"));
}

TEST_F(SourceModelTest, ATiedHeadMustBeTheEmbedding) {
  const auto with_head = [](at::Tensor head) {
    return [head](NamedTensors& tensors) { tensors.emplace_back("lm_head.weight", head); };
  };
  at::Tensor table;
  write(llama_json(), [&](NamedTensors& tensors) {
    table = tensor_of(tensors, "model.embed_tokens.weight");
    with_head(table)(tensors);
  });
  EXPECT_EQ(fault(), "accepted");
  write(llama_json(), with_head(table + 1));
  EXPECT_THAT(fault(), AllOf(HasSubstr("tie_word_embeddings: is true"),
                             HasSubstr("other values than the embedding"),
                             HasSubstr("\"tie_word_embeddings\": false")));
  // transformers 5 ties the two in this direction too.
  write(llama_json(), [](NamedTensors& tensors) {
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
  write(llama_json(), prefixed("_orig_mod."));
  EXPECT_THAT(fault(), HasSubstr("as torch.compile gives them"));
  write(llama_json(), prefixed("base_model.model."));
  EXPECT_THAT(fault(), HasSubstr("merge_and_unload"));
  write(llama_json(), [](NamedTensors& tensors) {
    auto& [name, tensor] = tensors.at(2);
    name.replace(name.rfind("weight"), 6, "qweight");
  });
  EXPECT_THAT(fault(), HasSubstr("quantised weights, as GPTQ or AWQ stores them"));
  json untied = llama_json();
  untied["tie_word_embeddings"] = false;
  write(untied, [](NamedTensors& tensors) {
    std::erase_if(tensors, [](const auto& entry) { return entry.first == "lm_head.weight"; });
  });
  EXPECT_THAT(fault(), HasSubstr("\"tie_word_embeddings\": true"));
}

TEST_F(SourceModelTest, ADirectoryWithoutWeightsSaysWhatItHas) {
  const auto advice_beside = [&](const std::string& file) {
    const TemporaryDirectory dir;
    put_file(dir / "config.json", llama_json().dump());
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
  put_file(dir_ / "config.json", llama_json().dump());
  put_file(dir_ / "model.safetensors",
           "version https://git-lfs.github.com/spec/v1\noid sha256:1\n");
  EXPECT_THAT(fault(), HasSubstr("git lfs pull"));
}

TEST_F(SourceModelTest, ShardsWithoutTheirIndexAreNamed) {
  put_file(dir_ / "config.json", llama_json().dump());
  put_file(dir_ / "model-00001-of-00002.safetensors", "");
  EXPECT_THAT(read().warnings, ElementsAre("model-00001-of-00002.safetensors: not read, because "
                                           "there is no model.safetensors.index.json"));
}

TEST_F(SourceModelTest, AnAdapterIsRefusedAndOtherWeightsAreNamed) {
  write(llama_json());
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
  json config = llama_json();
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
  write(llama_json());
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
