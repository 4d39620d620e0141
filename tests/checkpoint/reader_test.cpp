#include "worker/checkpoint/reader.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <optional>

#include "base/errors.h"
#include "tests/checkpoint/checkpoint_files.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string fault_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string opening_fault(const TemporaryDirectory& dir) {
  return fault_of([&] { CheckpointReader reader(dir.path()); });
}

NamedTensors three_tensors() {
  return {{"a", at::arange(6, at::kFloat).view({2, 3})},
          {"b", at::arange(4, at::kFloat) + 10},
          {"c", at::full({3, 1}, 0.5, at::kBFloat16)}};
}

void expect_three_tensors(const fs::path& dir) {
  const CheckpointReader reader(dir);
  EXPECT_THAT(reader.names(), ElementsAre("a", "b", "c"));
  for (const auto& [name, tensor] : three_tensors()) {
    EXPECT_TRUE(at::equal(reader.get(name, tensor.sizes()), tensor)) << name;
  }
}

TEST(CheckpointReader, ReadsTheExampleModel) {
  const CheckpointReader reader(DOTRESIZE_SOURCE_DIR "/examples/docs-llama");
  EXPECT_EQ(reader.names().size(), 3 + 6 * 9u);
  EXPECT_THAT(reader.shape("model.embed_tokens.weight"), ElementsAre(4096, 256));
  EXPECT_THAT(reader.shape("model.layers.5.self_attn.k_proj.weight"), ElementsAre(64, 256));
  EXPECT_THAT(reader.shape("model.norm.weight"), ElementsAre(256));
  const at::Tensor norm = reader.get("model.norm.weight", {256});
  EXPECT_EQ(norm.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(norm.isfinite().all().item<bool>());
}

/// Pages of files that this process has in memory.
int64_t resident_file_pages() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  int64_t of_files = 0;
  statm >> size >> resident >> of_files;
  return of_files;
}

TEST(CheckpointReader, ACopyOfRowsDoesNotHoldTheFileInMemory) {
  constexpr int64_t kRows = 4096;
  constexpr int64_t kPages = 4096;  // 16 MiB
  const TemporaryDirectory dir;
  const at::Tensor matrix = at::arange(kRows * 1024, at::kFloat).view({kRows, 1024});
  write_single_file(dir.path(), {{"a", matrix}});
  const CheckpointReader reader(dir.path());
  const at::Tensor even = at::arange(0, kRows, 2);
  const int64_t before = resident_file_pages();
  EXPECT_TRUE(at::equal(reader.rows("a", matrix.sizes(), even), matrix.index_select(0, even)));
  EXPECT_LT(resident_file_pages() - before, kPages / 4);
  const at::Tensor view = reader.get("a", matrix.sizes());
  EXPECT_TRUE(at::equal(view, matrix));
  EXPECT_GT(resident_file_pages() - before, kPages / 2);
}

TEST(CheckpointReader, ReadsASingleFileAndShardsAlike) {
  const TemporaryDirectory single;
  write_single_file(single.path(), three_tensors());
  expect_three_tensors(single.path());
  EXPECT_THAT(CheckpointReader(single.path()).files(), ElementsAre(single / "model.safetensors"));

  const TemporaryDirectory sharded;
  write_shards(sharded.path(), three_tensors(), 24);
  expect_three_tensors(sharded.path());
  EXPECT_THAT(CheckpointReader(sharded.path()).files(),
              ElementsAre(sharded / "model-00001-of-00002.safetensors",
                          sharded / "model-00002-of-00002.safetensors"));
}

TEST(CheckpointReader, FollowsTheLinksOfAHuggingFaceCache) {
  const TemporaryDirectory cache;
  fs::create_directories(cache / "blobs");
  fs::create_directories(cache / "snapshots/1234");
  write_shards(cache / "blobs", three_tensors(), 24);
  int blob = 0;
  for (const auto& entry : fs::directory_iterator(cache / "blobs")) {
    const std::string hash = "hash" + std::to_string(blob++);
    fs::create_symlink("../../blobs/" + hash, cache / "snapshots/1234" / entry.path().filename());
    fs::rename(entry.path(), cache / "blobs" / hash);
  }
  expect_three_tensors(cache / "snapshots/1234");
}

TEST(CheckpointReader, ReadsReplacementsInPlaceOfTheTensorsOfTheirNames) {
  const TemporaryDirectory dir;
  const TemporaryDirectory other;
  write_single_file(dir.path(), three_tensors());
  write_single_file(other.path(), {{"b", at::ones({2}, at::kDouble)}, {"d", at::ones({1})}});
  const CheckpointReader reader(dir.path(), ModelConfig(), {other.path() / "model.safetensors"});
  EXPECT_THAT(reader.names(), ElementsAre("a", "b", "c"));
  EXPECT_TRUE(at::equal(reader.get("a", {2, 3}), three_tensors().front().second));
  EXPECT_TRUE(at::equal(reader.get("b", {2}), at::ones({2}, at::kDouble)));
  EXPECT_EQ(reader.files().size(), 1u);
}

TEST(CheckpointReader, NamesWhatIsMissing) {
  const TemporaryDirectory dir;
  EXPECT_THAT(fault_of([&] { CheckpointReader reader(dir / "none"); }),
              HasSubstr("no such model directory"));
  EXPECT_THAT(opening_fault(dir), HasSubstr("neither model.safetensors nor"));
  put_file(dir / "pytorch_model.bin", "");
  EXPECT_THAT(opening_fault(dir), HasSubstr("'pytorch_model.bin' is not read"));
}

TEST(CheckpointReader, RefusesAnIndexThatPointsToAMissingShard) {
  const TemporaryDirectory dir;
  write_shards(dir.path(), three_tensors(), 24);
  fs::remove(dir / "model-00002-of-00002.safetensors");
  EXPECT_THAT(opening_fault(dir),
              HasSubstr("shard 'model-00002-of-00002.safetensors' of tensor 'b' is missing"));
}

TEST(CheckpointReader, RefusesAnIndexThatListsATensorItsShardLacks) {
  const TemporaryDirectory dir;
  write_single_file(dir.path(), three_tensors());
  fs::rename(dir / "model.safetensors", dir / "m");
  put_file(dir / "model.safetensors.index.json",
           R"({"weight_map":{"a":"m","b":"m","c":"m","d":"m"}})");
  EXPECT_THAT(opening_fault(dir), HasSubstr("tensor 'd' should be in m, which does not hold it"));
}

TEST(CheckpointReader, RefusesATensorThatTheIndexDoesNotList) {
  const TemporaryDirectory dir;
  write_single_file(dir.path(), three_tensors());
  fs::rename(dir / "model.safetensors", dir / "m");
  put_file(dir / "model.safetensors.index.json", R"({"weight_map":{"a":"m","c":"m"}})");
  EXPECT_THAT(opening_fault(dir),
              AllOf(HasSubstr("tensor 'b' is in this file"), HasSubstr("does not list it")));
}

TEST(CheckpointReader, RefusesATensorThatIsInTwoShards) {
  const TemporaryDirectory dir;
  write_single_file(dir.path(), three_tensors());
  fs::rename(dir / "model.safetensors", dir / "m");
  fs::copy(dir / "m", dir / "n");
  put_file(dir / "model.safetensors.index.json", R"({"weight_map":{"a":"m","b":"n","c":"m"}})");
  EXPECT_THAT(opening_fault(dir), HasSubstr("places it in"));
}

TEST(CheckpointReader, RefusesAShardOutsideTheDirectory) {
  const TemporaryDirectory dir;
  put_file(dir / "model.safetensors.index.json", R"({"weight_map":{"a":"../m"}})");
  EXPECT_THAT(opening_fault(dir), HasSubstr("file '../m' is not a plain file name"));
}

TEST(CheckpointReader, NamesFoundAndExpectedShapeAndDtype) {
  const TemporaryDirectory dir;
  write_single_file(dir.path(), {{"w", at::zeros({2, 3})}, {"ids", at::zeros({2}, at::kInt)}});
  const CheckpointReader reader(dir.path());
  EXPECT_THAT(fault_of([&] {
                reader.get("w", {3, 2});
              }),
              AllOf(HasSubstr("model.safetensors: tensor 'w'"),
                    HasSubstr("has shape [2, 3], expected [3, 2]")));
  EXPECT_THAT(fault_of([&] { reader.get("ids", {2}); }), HasSubstr("has dtype I32, expected a"));
  EXPECT_THAT(fault_of([&] { reader.get("absent", {2}); }), HasSubstr("no tensor 'absent'"));
  EXPECT_THAT(fault_of([&] { reader.shape("absent"); }), HasSubstr("no tensor 'absent'"));
  EXPECT_TRUE(reader.has("w"));
  EXPECT_FALSE(reader.has("absent"));
}

TEST(SafetensorsFile, TensorOutlivesTheFile) {
  const TemporaryDirectory dir;
  write_single_file(dir.path(), three_tensors());
  at::Tensor tensor;
  {
    std::optional<SafetensorsFile> file(dir / "model.safetensors");
    tensor = file->tensor("a");
    file.reset();
    fs::remove(dir / "model.safetensors");
  }
  EXPECT_TRUE(at::equal(tensor, at::arange(6, at::kFloat).view({2, 3})));
}

TEST(SafetensorsFile, ChangingATensorLeavesTheFileAlone) {
  const TemporaryDirectory dir;
  write_single_file(dir.path(), three_tensors());
  const SafetensorsFile file(dir / "model.safetensors");
  file.tensor("a").fill_(7);
  EXPECT_TRUE(at::equal(SafetensorsFile(dir / "model.safetensors").tensor("a"),
                        at::arange(6, at::kFloat).view({2, 3})));
}

TEST(SafetensorsFile, CopiesDataAtAnAddressThatItsDtypeCannotBeLoadedFrom) {
  const TemporaryDirectory dir;
  const std::string json = R"({"pad":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("x":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})";
  std::string bytes = safetensors_bytes(json, 0);
  const float values[] = {1.5f, -2.0f};
  bytes += '\0';
  bytes.append(reinterpret_cast<const char*>(values), sizeof(values));
  put_file(dir / "f", bytes);
  const at::Tensor x = SafetensorsFile(dir / "f").tensor("x");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.const_data_ptr()) % alignof(float), 0u);
  EXPECT_TRUE(at::equal(x, at::tensor({1.5f, -2.0f})));
}

TEST(SafetensorsFile, ReadsEmptyTensorsScalarsAndBooleans) {
  const TemporaryDirectory dir;
  const std::string json = R"({"none":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},)"
                           R"("bool":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]},)"
                           R"("scalar":{"dtype":"I16","shape":[],"data_offsets":[2,4]}} )";
  put_file(dir / "f", safetensors_bytes(json, 0) + std::string("\0\xFF\x05\0", 4));
  const SafetensorsFile file(dir / "f");
  EXPECT_EQ(file.tensor("none").sizes(), at::IntArrayRef({0, 7}));
  EXPECT_EQ(file.tensor("scalar").item<int64_t>(), 5);
  const at::Tensor booleans = file.tensor("bool");
  EXPECT_EQ(booleans.scalar_type(), at::kBool);
  EXPECT_FALSE(booleans[0].item<bool>());
  EXPECT_TRUE(booleans[1].item<bool>());
}

TEST(SafetensorsFile, RefusesDtypesThatItDoesNotRead) {
  const TemporaryDirectory dir;
  put_file(dir / "f",
           safetensors_bytes(R"({"x":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", 4));
  const SafetensorsFile file(dir / "f");
  EXPECT_THAT(fault_of([&] { file.tensor("x"); }),
              HasSubstr("tensor 'x': dtype 'F8_E4M3' is not supported"));
  EXPECT_THAT(fault_of([&] { file.tensor("y"); }), HasSubstr("tensor 'y' is not there"));
}

}  // namespace
}  // namespace dotresize
