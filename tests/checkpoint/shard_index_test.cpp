#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/errors.h"
#include "job/checkpoint/checkpoint_files.h"

namespace dotresize {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(ShardIndex, MapsTensorsToFilesAndPassesOverMetadata) {
  EXPECT_THAT(parse_shard_index(R"({"metadata":{"total_size":1.5e3,"x":[null,true,{"y":"z"}]},)"
                                R"("weight_map":{"b":"2.safetensors","a":"1.safetensors"}})",
                                "index"),
              ElementsAre(Pair("a", "1.safetensors"), Pair("b", "2.safetensors")));
}

struct Hostile {
  const char* name;
  std::string text;
  const char* message;
};

void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

std::string in_map(const std::string& entries) { return R"({"weight_map":{)" + entries + "}}"; }

std::vector<Hostile> hostile_indexes() {
  return {
      {"Empty", "", "must begin with '{'"},
      {"NoMap", R"({"metadata":{}})", "no tensors"},
      {"EmptyMap", in_map(""), "no tensors"},
      {"MapIsArray", R"({"weight_map":["a"]})", "weight_map: unexpected an array"},
      {"MapIsString", R"({"weight_map":"a"})", "unexpected the string 'a'"},
      {"MapIsNull", R"({"weight_map":null})", "unexpected null"},
      {"MapTwice", R"({"weight_map":{"a":"b"},"weight_map":{"c":"d"}})", "appears twice"},
      {"DuplicateTensor", in_map(R"("a":"1","a":"2")"), "tensor 'a': the name appears twice"},
      {"FileIsNumber", in_map(R"("a":1)"), "tensor 'a': unexpected the number 1"},
      {"FileIsObject", in_map(R"("a":{})"), "tensor 'a': unexpected an object"},
      {"FileIsArray", in_map(R"("a":[])"), "tensor 'a': unexpected an array"},
      {"Parent", in_map(R"("a":"../model.safetensors")"), "not a plain file name"},
      {"Absolute", in_map(R"("a":"/etc/passwd")"), "not a plain file name"},
      {"Subdirectory", in_map(R"("a":"sub/model.safetensors")"), "not a plain file name"},
      {"DotDot", in_map(R"("a":"..")"), "not a plain file name"},
      {"Dot", in_map(R"("a":".")"), "not a plain file name"},
      {"NoFileName", in_map(R"("a":"")"), "not a plain file name"},
      {"NulInFileName", in_map(R"("a":"model\u0000.safetensors")"), "not a plain file name"},
      {"Truncated", R"({"weight_map":{"a":"b")", "not valid JSON"},
      {"BadUtf8", in_map("\"\xFF\":\"b\""), "ill-formed UTF-8"},
      {"NestingBomb", R"({"metadata":)" + std::string(1'000'000, '['), "not valid JSON"},
  };
}

class HostileIndex : public testing::TestWithParam<Hostile> {};

TEST_P(HostileIndex, IsRefusedWithItsReason) {
  try {
    parse_shard_index(GetParam().text, "index");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(Texts, HostileIndex, testing::ValuesIn(hostile_indexes()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace dotresize
