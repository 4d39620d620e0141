#include "worker/transformer/load.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "job/model/tensor_table.h"
#include "tests/transformer/whole_model.h"
#include "worker/checkpoint/writer.h"

namespace dotresize::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A float32 checkpoint in a directory that is named after the running test.
class Load : public ::testing::Test {
 protected:
  Load() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = std::filesystem::path(::testing::TempDir()) / (std::string("load-") + info->name());
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    at::manual_seed(1);
  }
  ~Load() override { std::filesystem::remove_all(dir_); }

  // Puts random values into every tensor that such a model stores.
  void fill() {
    for (const auto& [name, shape] : expected_shapes(config_)) {
      tensors_[name] = at::randn(shape, at::kFloat);
    }
  }

  CheckpointReader write() const {
    std::vector<TensorSpec> specs;
    for (const auto& [name, tensor] : tensors_) {
      specs.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
    }
    const ShardLayout layout = make_shard_layout(specs);
    create_shards(dir_, layout);
    std::set<std::string> names;
    for (const auto& entry : tensors_) names.insert(entry.first);
    ShardWriter writer(dir_, layout, names);
    for (const auto& [name, tensor] : tensors_) writer.write(name, tensor);
    writer.finish();
    write_file_atomically(dir_ / "model.safetensors.index.json", index_json(layout));
    return CheckpointReader(dir_);
  }

  // Writes one value into the file directly, because the writer refuses values that are not finite.
  void overwrite_first(const std::string& name, float value) const {
    for (const auto& path : CheckpointReader(dir_).files()) {
      const auto tensors = read_safetensors_header(InputFile(path)).tensors;
      if (tensors.count(name) == 0) continue;
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(static_cast<std::streamoff>(tensors.at(name).begin));
      file.write(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }

  ModelConfig config_ = tiny_config();
  std::map<std::string, at::Tensor> tensors_;
  std::filesystem::path dir_;
};

TEST_F(Load, ReadsACompressedSublayerWithItsShortcutTransposed) {
  config_.compressed = true;
  config_.form.junction_widths = {8, 10, 12, 14, 24};
  fill();
  const SublayerWeights weights = load_sublayer(write(), config_, 1, at::kFloat);
  EXPECT_FALSE(weights.norm.defined());
  EXPECT_TRUE(at::equal(weights.shortcut, tensors_["model.layers.0.mlp_shortcut.weight"].t()));
  EXPECT_TRUE(at::equal(weights.out_proj[0].bias, tensors_["model.layers.0.mlp.down_proj.bias"]));
  EXPECT_FALSE(load_head(CheckpointReader(dir_), config_, at::kFloat).norm.defined());
}

TEST_F(Load, StoredTensorsComeBack) {
  config_.compressed = true;
  config_.form.junction_widths = {8, 10, 10, 14, 24};
  config_.form.junction_groups = {0, 1, 1, 2, 3};
  fill();
  const CheckpointReader reader = write();
  for (int64_t s = 0; s < config_.num_sublayers(); ++s) {
    for_each_stored(load_sublayer(reader, config_, s, at::kFloat), sublayer_tensors(config_, s),
                    [&](const StoredTensor& stored, const at::Tensor& tensor) {
                      EXPECT_TRUE(at::equal(tensor, tensors_[stored.name])) << stored.name;
                    });
  }
}

TEST_F(Load, TiedHeadIsTheEmbeddingWhateverTheFileSays) {
  fill();
  config_.tie_word_embeddings = true;
  const HeadWeights head = load_head(write(), config_, at::kFloat);
  EXPECT_TRUE(at::equal(head.weight, tensors_["model.embed_tokens.weight"]));
  EXPECT_TRUE(at::equal(head.norm, tensors_["model.norm.weight"]));
}

TEST_F(Load, IgnoresTensorsThatTheModelDoesNotUse) {
  fill();
  tensors_["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({6});
  EXPECT_NO_THROW(load_sublayer(write(), config_, 0, at::kFloat));
}

TEST_F(Load, GivesACopyInTheDtypeAskedFor) {
  fill();
  const at::Tensor embedding = load_embedding(write(), config_, at::kBFloat16).weight;
  EXPECT_TRUE(at::equal(embedding, tensors_["model.embed_tokens.weight"].to(at::kBFloat16)));
}

TEST_F(Load, NamesTheTensorThatIsNotFinite) {
  fill();
  write();
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    overwrite_first("model.layers.0.mlp.up_proj.weight", bad);
    const CheckpointReader reader(dir_);
    EXPECT_THAT([&] { load_sublayer(reader, config_, 1, at::kFloat); },
                ThrowsMessage<InputError>(HasSubstr(
                    ".safetensors: tensor 'model.layers.0.mlp.up_proj.weight' holds NaN")));
  }
}

TEST_F(Load, RefusesValuesBeyondFloat16) {
  fill();
  tensors_["lm_head.weight"][0][0] = 1e6;
  const CheckpointReader reader = write();
  EXPECT_NO_THROW(load_head(reader, config_, at::kBFloat16));
  EXPECT_THAT([&] { load_head(reader, config_, at::kHalf); },
              ThrowsMessage<InputError>(HasSubstr("beyond the range of Half")));
}

TEST_F(Load, NamesTheTensorThatIsMissingOrMisshapen) {
  fill();
  tensors_.erase("model.layers.1.self_attn.v_proj.bias");
  tensors_["model.layers.1.mlp.down_proj.weight"] = at::ones({24, 41});
  const CheckpointReader reader = write();
  EXPECT_THAT([&] { load_sublayer(reader, config_, 2, at::kFloat); },
              ThrowsMessage<InputError>(HasSubstr("model.layers.1.self_attn.v_proj.bias")));
  EXPECT_THAT([&] { load_sublayer(reader, config_, 3, at::kFloat); },
              ThrowsMessage<InputError>(HasSubstr("model.layers.1.mlp.down_proj.weight")));
}

TEST_F(Load, NamesTheFusedTensorThatIsMissingOrMisshapen) {
  config_ = fused_config();
  fill();
  tensors_.erase("model.layers.0.self_attn.qkv_proj.weight");
  tensors_.erase("model.layers.1.self_attn.k_norm.weight");
  tensors_["model.layers.0.mlp.gate_up_proj.weight"] = at::ones({79, 24});
  const CheckpointReader reader = write();
  EXPECT_THAT([&] { load_sublayer(reader, config_, 0, at::kFloat); },
              ThrowsMessage<InputError>(HasSubstr("model.layers.0.self_attn.qkv_proj.weight")));
  EXPECT_THAT([&] { load_sublayer(reader, config_, 1, at::kFloat); },
              ThrowsMessage<InputError>(HasSubstr("model.layers.0.mlp.gate_up_proj.weight")));
  EXPECT_THAT([&] { load_sublayer(reader, config_, 2, at::kFloat); },
              ThrowsMessage<InputError>(HasSubstr("model.layers.1.self_attn.k_norm.weight")));
}

TEST_F(Load, NamesTheTensorOfAnExpertThatIsMissing) {
  config_ = mixture_config();
  fill();
  const std::string block = "model.layers.1.block_sparse_moe.";
  for (const std::string& name : {block + "gate.weight", block + "experts.4.w2.weight"}) {
    const at::Tensor removed = tensors_.at(name);
    tensors_.erase(name);
    const CheckpointReader reader = write();
    EXPECT_THAT([&] { load_sublayer(reader, config_, 3, at::kFloat); },
                ThrowsMessage<InputError>(HasSubstr(name)));
    tensors_[name] = removed;
  }
}

}  // namespace
}  // namespace dotresize::testing
