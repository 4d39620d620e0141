#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/errors.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "worker/checkpoint/safetensors_header.h"
#include "worker/checkpoint/shard_index.h"

namespace dotresize {
namespace {

constexpr int kMutations = 20'000;

/// One to four random edits: a byte replaced, removed or doubled, a piece copied elsewhere, or the
/// end cut off. Half of the replacements are characters that mean something in JSON.
std::string mutate(std::string bytes, std::mt19937& random) {
  static constexpr char kMeaningful[] = "{}[]\",:\\-+.0123456789eEtfn \xC3\xFF";
  const auto below = [&](size_t bound) { return random() % bound; };
  for (size_t edits = 1 + below(4); edits > 0 && bytes.size() > 1; --edits) {
    const size_t at = below(bytes.size());
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 1:
      case 2:
        bytes[at] = kMeaningful[below(sizeof(kMeaningful))];
        break;
      case 3:
        bytes.erase(at, 1 + below(3));
        break;
      case 4:
        bytes.insert(below(bytes.size()), bytes.substr(at, 1 + below(40)));
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

/// Parsed tensors keep the header's promises, whatever the bytes were.
void expect_sound(const SafetensorsHeader& header, uint64_t file_size) {
  for (const auto& [name, info] : header.tensors) {
    int64_t bytes = safetensors_dtype_size(info.dtype);
    for (const int64_t size : info.shape) {
      ASSERT_GE(size, 0);
      bytes *= size;
    }
    ASSERT_LE(info.begin, info.end);
    ASSERT_LE(info.end, file_size);
    ASSERT_EQ(info.end - info.begin, static_cast<uint64_t>(bytes));
  }
}

TEST(MutatedHeader, IsRefusedOrSound) {
  const std::string valid = safetensors_bytes(
      R"({"__metadata__":{"format":"pt","k\u00e9y":"v"},)"
      R"("model.embed.weight":{"dtype":"BF16","shape":[3,2],"data_offsets":[0,12]},)"
      R"("empty":{"dtype":"F32","shape":[0,4],"data_offsets":[12,12]},)"
      R"("tokens":{"dtype":"I64","shape":[2],"data_offsets":[12,28]}}    )",
      28);
  std::mt19937 random(20240229);
  int refused = 0;
  for (int i = 0; i < kMutations; ++i) {
    std::string bytes = mutate(valid, random);
    if (i % 2 == 0) {  // otherwise most changes of length end at the length field
      const uint64_t data = std::min<uint64_t>(28, bytes.size());
      const uint64_t json = bytes.size() - data < 8 ? 0 : bytes.size() - data - 8;
      bytes = length_bytes(json) + bytes.substr(std::min<size_t>(8, bytes.size()));
    }
    try {
      expect_sound(parse_safetensors_header(bytes.data(), bytes.size(), bytes.size(), "fuzz"),
                   bytes.size());
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, kMutations / 2);
  EXPECT_LT(refused, kMutations);  // changes in the data and in names are not faults
}

TEST(MutatedIndex, IsRefusedOrStaysInTheDirectory) {
  const std::string valid =
      R"({"metadata":{"total_size":12,"nested":[1,{"a":null}]},)"
      R"("weight_map":{"a":"model-00001-of-00002.safetensors","b":"../up","c":"/x"}})";
  std::mt19937 random(20240301);
  for (int i = 0; i < kMutations; ++i) {
    try {
      for (const auto& [tensor, file] : parse_shard_index(mutate(valid, random), "fuzz")) {
        ASSERT_EQ(file.find('/'), std::string::npos);
        ASSERT_NE(file, "..");
      }
    } catch (const InputError&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace dotresize
