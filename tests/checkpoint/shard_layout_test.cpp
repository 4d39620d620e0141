#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "worker/checkpoint/writer.h"

namespace dotresize {
namespace {

using testing::ElementsAre;

TensorSpec spec(const std::string& name, std::vector<int64_t> shape) {
  return {name, at::kBFloat16, std::move(shape)};
}

std::vector<std::string> names_in(const ShardLayout::Shard& shard) {
  std::vector<std::string> names;
  for (const TensorSpec& tensor : shard.tensors) {
    names.push_back(tensor.name);
  }
  return names;
}

TEST(ShardLayout, CutsInOrderAndNumbersFiles) {
  const ShardLayout layout = make_shard_layout(
      {spec("z", {10}), spec("a", {10}), spec("m", {1}), spec("b", {50}), spec("c", {5})}, 40);
  ASSERT_EQ(layout.shards.size(), 4u);
  EXPECT_EQ(layout.shards[0].file, "model-00001-of-00004.safetensors");
  EXPECT_EQ(layout.shards[3].file, "model-00004-of-00004.safetensors");
  EXPECT_THAT(names_in(layout.shards[0]), ElementsAre("z", "a"));
  EXPECT_THAT(names_in(layout.shards[1]), ElementsAre("m"));
  EXPECT_THAT(names_in(layout.shards[2]), ElementsAre("b"));  // larger than the shard limit
  EXPECT_THAT(names_in(layout.shards[3]), ElementsAre("c"));
  EXPECT_EQ(layout.total_parameters, 76);
  EXPECT_EQ(layout.total_bytes, 152);
}

TEST(ShardLayout, RefusesANameThatIsThereTwice) {
  EXPECT_THROW(make_shard_layout({spec("a", {1}), spec("a", {1})}), std::logic_error);
}

TEST(IndexJson, IsSortedAndHasTheTotals) {
  const std::string text = index_json(make_shard_layout({spec("b", {2}), spec("a", {3})}, 4));
  EXPECT_EQ(text, R"({
  "metadata": {
    "total_parameters": 5,
    "total_size": 10
  },
  "weight_map": {
    "a": "model-00002-of-00002.safetensors",
    "b": "model-00001-of-00002.safetensors"
  }
}
)");
}

}  // namespace
}  // namespace dotresize
