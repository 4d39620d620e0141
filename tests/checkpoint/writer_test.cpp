#include "worker/checkpoint/writer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <system_error>

#include "base/errors.h"
#include "tests/checkpoint/checkpoint_files.h"
#include "tests/limited_file_size.h"
#include "tests/temporary_directory.h"
#include "worker/checkpoint/elements.h"
#include "worker/checkpoint/reader.h"

namespace dotresize {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kOnlyShard[] = "model-00001-of-00001.safetensors";

at::Tensor random_tensor(at::IntArrayRef shape, at::ScalarType dtype) {
  return at::randn(shape, at::detail::createCPUGenerator(29), at::kDouble).to(dtype);
}

/// Writes `tensor` as `dtype` and reads it back.
at::Tensor round_trip(const at::Tensor& tensor, at::ScalarType dtype) {
  const TemporaryDirectory dir;
  const auto layout = make_shard_layout({{"x", dtype, tensor.sizes().vec()}});
  create_shards(dir.path(), layout);
  ShardWriter writer(dir.path(), layout, {"x"});
  writer.write("x", tensor);
  writer.finish();
  return SafetensorsFile(dir / kOnlyShard).tensor("x");
}

class RoundTrip : public testing::TestWithParam<at::ScalarType> {};

TEST_P(RoundTrip, KeepsEveryBit) {
  for (const auto& shape :
       std::vector<std::vector<int64_t>>{{}, {1}, {7}, {3, 5}, {0, 4}, {2, 3, 4}}) {
    const at::Tensor tensor = random_tensor(shape, GetParam());
    const at::Tensor back = round_trip(tensor, GetParam());
    EXPECT_EQ(back.scalar_type(), GetParam());
    EXPECT_TRUE(at::equal(back, tensor)) << tensor.sizes();
  }
}

TEST_P(RoundTrip, RoundsFloat64AsTorchDoes) {
  const at::Tensor tensor = random_tensor({33, 17}, at::kDouble);
  EXPECT_TRUE(at::equal(round_trip(tensor, GetParam()), tensor.to(GetParam())));
}

TEST_P(RoundTrip, WritesStridedTensorsInRowMajorOrder) {
  const at::Tensor tensor = random_tensor({6, 10}, GetParam());
  const at::Tensor part = tensor.t().slice(0, 1, 9, 2);
  EXPECT_TRUE(at::equal(round_trip(part, GetParam()), part));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, RoundTrip,
                         testing::Values(at::kDouble, at::kFloat, at::kHalf, at::kBFloat16),
                         [](const auto& test) { return c10::toString(test.param); });

TEST(ForEachBlock, CoversEveryElementOnceAndInOrder) {
  const at::Tensor base = at::arange(60, at::kLong);
  for (const at::Tensor& tensor :
       {base, base.view({12, 5}), base.view({5, 12}).t(), base.view({3, 4, 5}).transpose(0, 2)}) {
    std::vector<at::Tensor> blocks;
    int64_t next = 0;
    for_each_block(
        tensor,
        [&](const at::Tensor& block, int64_t first) {
          EXPECT_EQ(first, next);
          next += block.numel();
          blocks.push_back(block.flatten());
        },
        7);
    EXPECT_GT(blocks.size(), 4u);
    EXPECT_TRUE(at::equal(at::cat(blocks), tensor.flatten()));
  }
}

TEST(ShardWriter, WritesTensorsOfSeveralBlocks) {
  const at::Tensor tensor = at::arange(int64_t{9} << 20, at::kInt).to(at::kFloat);
  EXPECT_TRUE(at::equal(round_trip(tensor, at::kFloat), tensor));
}

TEST(ShardWriter, FilesDependOnLayoutAndTensorsAlone) {
  const NamedTensors tensors = {{"b", random_tensor({5, 3}, at::kBFloat16)},
                                {"a", random_tensor({4}, at::kFloat)},
                                {"c", random_tensor({2, 2}, at::kHalf)}};
  const TemporaryDirectory forward;
  const ShardLayout layout = write_shards(forward.path(), tensors, 1 << 20);
  const TemporaryDirectory backward;
  put_file(backward / kOnlyShard, std::string(5000, 'x'));  // left by an earlier attempt
  create_shards(backward.path(), layout);
  ShardWriter writer(backward.path(), layout, names_of(layout));
  for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
    writer.write(tensor->first, tensor->second);
  }
  writer.finish();
  EXPECT_EQ(file_bytes(backward / kOnlyShard), file_bytes(forward / kOnlyShard));
}

TEST(ShardWriter, PartsOfATensorAreOneInTheFile) {
  std::vector<TensorSpec> specs = {{"first", at::kFloat, {2}}};
  std::set<std::string> names = {"first", "last"};
  const at::Tensor matrices = random_tensor({3, 4, 5}, at::kFloat);  // [out, in] of each
  for (int64_t part = 0; part < 3; ++part) {
    const std::string name = "part." + std::to_string(part);
    specs.push_back({name, at::kFloat, {4, 5}, "all", TensorSlice{"all", part, 3}});
    names.insert(name);
  }
  specs.push_back({"last", at::kFloat, {2}});
  const TemporaryDirectory dir;
  const ShardLayout layout = make_shard_layout(specs);
  EXPECT_EQ(layout.total_parameters, 2 + 60 + 2);
  EXPECT_THAT(index_json(layout), AllOf(HasSubstr("\"all\""), testing::Not(HasSubstr("part"))));
  create_shards(dir.path(), layout);
  ShardWriter writer(dir.path(), layout, names);
  for (const int64_t part : {2, 0, 1}) writer.write("part." + std::to_string(part), matrices[part]);
  EXPECT_THROW(writer.write("part.0", matrices[0].narrow(0, 0, 2), 2), std::logic_error);
  for (const char* name : {"first", "last"}) writer.write(name, at::ones({2}));
  writer.finish();
  const SafetensorsFile file(dir / kOnlyShard);
  EXPECT_EQ(file.header.tensors.size(), 3u);
  EXPECT_TRUE(at::equal(file.tensor("all"), matrices.transpose(1, 2)));
  EXPECT_TRUE(at::equal(file.tensor("last"), at::ones({2})));
  EXPECT_EQ(make_shard_layout(specs, 100).shards.at(1).tensors.size(), 3u);  // kept together
  specs.erase(specs.begin() + 2);
  EXPECT_THROW(index_json(make_shard_layout(specs)), std::logic_error);
}

TEST(ShardWriter, CopiesTensorsOfAnyDtypeAndGivesOthersTheirStoredNames) {
  const TemporaryDirectory dir;
  put_file(dir / "source", "0123456789");
  const TensorPlace place{"source", "other", "F8_E5M2", {3, 2}, 2, 8};
  const ShardLayout layout =
      make_shard_layout({{.name = "x", .dtype = at::kFloat, .shape = {1}, .stored_name = "part.x"},
                         copied_tensor(place)});
  EXPECT_EQ(layout.total_bytes, 10);
  EXPECT_EQ(layout.copied_bytes, 6);
  EXPECT_EQ(layout.copied_parameters, 6);
  create_shards(dir.path(), layout);
  ShardWriter writer(dir.path(), layout, {"x", "other"});
  writer.write("x", at::ones({1}));
  EXPECT_THROW(writer.copy("x", dir.path()), std::logic_error);
  writer.copy("other", dir.path());
  writer.finish();
  const SafetensorsFile file(dir / kOnlyShard);
  EXPECT_EQ(file.tensor("part.x").item<float>(), 1.0F);
  const TensorInfo& copied = file.header.tensors.at("other");
  EXPECT_EQ(copied.dtype, "F8_E5M2");
  EXPECT_EQ(copied.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(file_bytes(dir / kOnlyShard).substr(copied.begin), "234567");
  EXPECT_THAT(index_json(layout), testing::HasSubstr("part.x"));
}

TEST(ShardWriter, HeaderIsAlignedInLayoutOrderAndMarkedForPyTorch) {
  const TemporaryDirectory dir;
  write_shards(dir.path(), {{"b", at::ones({2})}, {"a", at::ones({1})}}, 1 << 20);
  const std::string bytes = file_bytes(dir / kOnlyShard);
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]) % 8, 0);
  EXPECT_THAT(bytes, HasSubstr(R"({"__metadata__":{"format":"pt"},)"
                               R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                               R"("a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}} )"));
  const auto header = SafetensorsFile(dir / kOnlyShard).header;
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.tensors.at("b").begin % 8, 0u);
}

TEST(ShardWriter, SeveralRanksWriteTheirTensorsIntoOneFile) {
  const NamedTensors tensors = {{"a", random_tensor({3, 2}, at::kFloat)},
                                {"b", random_tensor({4}, at::kFloat)},
                                {"c", random_tensor({2}, at::kFloat)}};
  const TemporaryDirectory alone;
  const ShardLayout layout = write_shards(alone.path(), tensors, 1 << 20);
  const TemporaryDirectory together;
  create_shards(together.path(), layout);
  ShardWriter first(together.path(), layout, {"b"});
  ShardWriter second(together.path(), layout, {"a", "c"});
  EXPECT_THROW(first.write("a", tensors[0].second), std::logic_error);
  second.write("c", tensors[2].second);
  first.write("b", tensors[1].second);
  second.write("a", tensors[0].second);
  first.finish();
  second.finish();
  EXPECT_EQ(file_bytes(together / kOnlyShard), file_bytes(alone / kOnlyShard));
}

TEST(ShardWriter, OpensNoFileWithoutATensorOfItsRank) {
  const TemporaryDirectory dir;
  const auto layout = make_shard_layout({{"a", at::kFloat, {1}}, {"b", at::kFloat, {1}}}, 4);
  create_shards(dir.path(), layout);
  std::filesystem::remove(dir / layout.shards[0].file);
  ShardWriter writer(dir.path(), layout, {"b"});
  writer.write("b", at::ones({1}));
  EXPECT_NO_THROW(writer.finish());
  EXPECT_FALSE(std::filesystem::exists(dir / layout.shards[0].file));
}

TEST(ShardWriter, WritesAMatrixByBlocksOfRows) {
  const at::Tensor matrix = random_tensor({7, 3}, at::kFloat);
  const TemporaryDirectory dir;
  const auto layout = make_shard_layout({{"x", at::kFloat, {7, 3}}});
  create_shards(dir.path(), layout);
  ShardWriter writer(dir.path(), layout, {"x"});
  writer.write("x", matrix.narrow(0, 4, 3), 4);
  EXPECT_THROW(writer.finish(), std::logic_error);
  EXPECT_THROW(writer.write("x", matrix.narrow(0, 0, 4), 5), std::logic_error);
  writer.write("x", matrix.narrow(0, 0, 4), 0);
  EXPECT_THROW(writer.write("x", matrix.narrow(0, 0, 1), 0), std::logic_error);
  writer.finish();
  EXPECT_TRUE(SafetensorsFile(dir / kOnlyShard).tensor("x").equal(matrix));
}

TEST(ShardWriter, RefusesWhatTheLayoutDoesNotSay) {
  const TemporaryDirectory dir;
  const auto layout = make_shard_layout({{"a", at::kFloat, {2}}, {"n", at::kLong, {1}}});
  create_shards(dir.path(), layout);
  ShardWriter writer(dir.path(), layout, names_of(layout));
  EXPECT_THROW(writer.write("a", at::ones({3})), std::logic_error);
  EXPECT_THROW(writer.write("a", at::ones({2}, at::kLong)), std::logic_error);
  EXPECT_THROW(writer.write("n", at::ones({1})), std::logic_error);
  EXPECT_THROW(writer.write("other", at::ones({2})), std::logic_error);
  writer.write("a", at::ones({2}));
  EXPECT_THROW(writer.write("a", at::ones({2})), std::logic_error);
  EXPECT_THROW(writer.finish(), std::logic_error);  // n was never written
  writer.write("n", at::ones({1}, at::kLong));
  EXPECT_NO_THROW(writer.finish());
}

TEST(ShardWriter, RefusesAFiniteValueThatTheDtypeCannotHold) {
  const at::Tensor fits = at::full({3}, 65504.0, at::kDouble);
  EXPECT_TRUE(at::equal(round_trip(fits, at::kHalf), fits.to(at::kHalf)));
  at::Tensor large = at::zeros({3}, at::kDouble);
  large[1] = -70000.0;
  try {
    round_trip(large, at::kHalf);
    FAIL() << "wrote an infinity";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("tensor 'x' holds -70000"), HasSubstr("Half")));
  }
  EXPECT_TRUE(at::equal(round_trip(large, at::kBFloat16), large.to(at::kBFloat16)));
  large[2] = 1e300;
  EXPECT_THROW(round_trip(large, at::kFloat), InputError);
}

TEST(AllFinite, SeesASingleBadValue) {
  for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    at::Tensor tensor = random_tensor({1001}, dtype);
    EXPECT_TRUE(all_finite(tensor));
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
          -std::numeric_limits<double>::infinity()}) {
      tensor[997] = bad;
      EXPECT_FALSE(all_finite(tensor)) << c10::toString(dtype) << " " << bad;
    }
  }
  EXPECT_TRUE(all_finite(at::zeros({0, 3})));
}

TEST(ShardWriter, RefusesNanAndInfinity) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    const at::Tensor tensor = at::full({2, 2}, bad, at::kFloat);
    try {
      round_trip(tensor, at::kFloat);
      FAIL() << "wrote " << bad;
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("tensor 'x' holds NaN or infinity"));
    }
  }
}

TEST(ShardWriter, SaysAtOnceThatTheDiskHasNoRoom) {
  const TemporaryDirectory dir;
  const auto layout = make_shard_layout({{"a", at::kFloat, {100'000}}});
  const LimitedFileSize limit(10'000);
  try {
    create_shards(dir.path(), layout);
    FAIL() << "took more than the limit";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(kOnlyShard), HasSubstr("File too large")));
  }
}

TEST(ShardWriter, DoesNotWriteThroughALink) {
  const TemporaryDirectory dir;
  put_file(dir / "precious", "precious");
  std::filesystem::create_symlink("precious", dir / kOnlyShard);
  const auto layout = make_shard_layout({{"a", at::kFloat, {1}}});
  EXPECT_THROW(create_shards(dir.path(), layout), std::system_error);
  EXPECT_THROW(ShardWriter(dir.path(), layout, {"a"}), std::system_error);
  EXPECT_EQ(file_bytes(dir / "precious"), "precious");
}

}  // namespace
}  // namespace dotresize
