#include "worker/checkpoint/verify.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/errors.h"
#include "tests/checkpoint/checkpoint_files.h"
#include "tests/temporary_directory.h"
#include "worker/checkpoint/writer.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr char kFirstShard[] = "model-00001-of-00002.safetensors";

const std::map<std::string, std::vector<int64_t>> kShapes = {{"a", {2, 3}}, {"b", {4}}};

/// A model directory like one that a job leaves.
class VerifyModelDir : public testing::Test {
 protected:
  VerifyModelDir() {
    write_shards(dir_.path(), {{"a", at::ones({2, 3})}, {"b", at::ones({4})}}, 24);
    put_file(dir_ / "config.json", "{}");
    fs::create_directory(dir_ / "dotresize");
    put_file(dir_ / "dotresize/report.json", "{}");
    seal();
  }

  void seal() { put_file(dir_ / "SHA256SUMS", sha256_sums(dir_.path())); }

  std::vector<std::string> problems() const {
    return verify_model_dir(dir_.path(), kShapes).problems;
  }

  TemporaryDirectory dir_;
};

TEST_F(VerifyModelDir, FindsNothingWrongWithAFinishedModel) {
  const VerifyResult result = verify_model_dir(dir_.path(), kShapes);
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_EQ(result.files, 5);
  EXPECT_EQ(result.tensors, 2);
  EXPECT_EQ(result.parameters, 10);
}

TEST_F(VerifyModelDir, FindsAChangedByte) {
  std::string bytes = file_bytes(dir_ / kFirstShard);
  bytes.back() ^= 1;
  put_file(dir_ / kFirstShard, bytes);
  EXPECT_THAT(problems(),
              ElementsAre(std::string(kFirstShard) + ": its content does not match SHA256SUMS"));
}

TEST_F(VerifyModelDir, FindsMissingAndAdditionalFiles) {
  fs::remove(dir_ / "dotresize/report.json");
  put_file(dir_ / "dotresize/other.json", "{}");
  EXPECT_THAT(problems(),
              UnorderedElementsAre("dotresize/report.json: listed in SHA256SUMS, but missing",
                                   "dotresize/other.json: not listed in SHA256SUMS"));
}

TEST_F(VerifyModelDir, RefusesPathsThatLeaveTheDirectoryAndMalformedLines) {
  const std::string hash(64, 'a');
  put_file(dir_ / "SHA256SUMS", sha256_sums(dir_.path()) + hash + "  ../x\n" + hash + "  /x\n" +
                                    hash + "  a//x\n" + hash + " x\n" + hash + "  \n" +
                                    hash.substr(1) + "  x\n" + hash + "  config.json\n");
  EXPECT_THAT(problems(),
              ElementsAre(HasSubstr("SHA256SUMS:6: path '../x' leads out"),
                          HasSubstr("SHA256SUMS:7: path '/x' leads out"),
                          HasSubstr("SHA256SUMS:8: path 'a//x' leads out"),
                          HasSubstr("SHA256SUMS:9: not a SHA-256"),
                          HasSubstr("SHA256SUMS:10: path '' leads out"),
                          HasSubstr("SHA256SUMS:11: not a SHA-256"),
                          HasSubstr("SHA256SUMS:12: path 'config.json' appears twice")));
}

TEST_F(VerifyModelDir, ChecksTensorsAlsoWithoutSums) {
  fs::remove(dir_ / "SHA256SUMS");
  const VerifyResult result = verify_model_dir(dir_.path(), kShapes);
  EXPECT_THAT(result.problems, ElementsAre(HasSubstr("SHA256SUMS: no such file")));
  EXPECT_EQ(result.tensors, 2);
}

TEST_F(VerifyModelDir, FindsAMissingShard) {
  fs::remove(dir_ / kFirstShard);
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("but missing"), HasSubstr("shard 'model-00001")));
}

TEST_F(VerifyModelDir, FindsValuesThatAreNotFinite) {
  const float values[] = {
      1, 1, std::numeric_limits<float>::quiet_NaN(), 1, std::numeric_limits<float>::infinity(), 1};
  std::string bytes = file_bytes(dir_ / kFirstShard);
  bytes.replace(bytes.size() - sizeof(values), sizeof(values),
                reinterpret_cast<const char*>(values), sizeof(values));
  put_file(dir_ / kFirstShard, bytes);
  seal();
  EXPECT_THAT(problems(), ElementsAre("tensor 'a': 2 values are NaN or infinite, the first at "
                                      "position 2"));
}

TEST_F(VerifyModelDir, ComparesShapesWithTheModels) {
  EXPECT_THAT(
      verify_model_dir(dir_.path(), {{"a", {3, 2}}, {"c", {1}}}).problems,
      UnorderedElementsAre("tensor 'a' has shape [2, 3], config.json implies [3, 2]",
                           "tensor 'c' is missing", "tensor 'b' does not belong to the model"));
  EXPECT_THAT(verify_model_dir(dir_.path(), {}).problems, IsEmpty());
}

TEST_F(VerifyModelDir, RefusesADirectoryThatIsNotThere) {
  EXPECT_THROW(verify_model_dir(dir_ / "none", {}), InputError);
}

}  // namespace
}  // namespace dotresize
