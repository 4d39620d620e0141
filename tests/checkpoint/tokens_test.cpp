#include "worker/checkpoint/tokens.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/errors.h"
#include "tests/checkpoint/checkpoint_files.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string fault_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TokenFile read_back(const std::string& name, const at::Tensor& tokens, int64_t vocab_size) {
  const TemporaryDirectory dir;
  write_single_file(dir.path(), {{name, tokens}});
  return read_tokens(dir / "model.safetensors", vocab_size);
}

std::string fault_of_tokens(const at::Tensor& tokens, int64_t vocab_size = 100) {
  return fault_of([&] { read_back("tokens", tokens, vocab_size); });
}

TEST(ReadTokens, ReadsTheExampleFile) {
  const TokenFile file =
      read_tokens(DOTRESIZE_SOURCE_DIR "/tests/data/calibration.safetensors", 4096);
  EXPECT_EQ(file.tokens.sizes(), at::IntArrayRef({64 * 512}));
  EXPECT_EQ(file.tokens.scalar_type(), at::kLong);
  EXPECT_EQ(file.row_length, 512);
}

TEST(ReadTokens, AcceptsEveryIntegerDtype) {
  const at::Tensor ids = at::arange(12, at::kLong);
  for (const auto dtype :
       {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte, at::kUInt16, at::kUInt32}) {
    const TokenFile flat = read_back("tokens", ids.to(dtype), 12);
    EXPECT_TRUE(at::equal(flat.tokens, ids)) << c10::toString(dtype);
    EXPECT_FALSE(flat.row_length.has_value());
    const TokenFile rows = read_back("tokens", ids.view({3, 4}).to(dtype), 12);
    EXPECT_TRUE(at::equal(rows.tokens, ids));
    EXPECT_EQ(rows.row_length, 4);
  }
}

TEST(ReadTokens, ReadsIdsAboveTheSignedRange) {
  const at::Tensor ids = at::full({1}, 65000, at::kLong).to(at::kUInt16);
  EXPECT_EQ(read_back("tokens", ids, 65001).tokens[0].item<int64_t>(), 65000);
}

TEST(ReadTokens, NamesTheIdOutsideTheVocabularyAndItsPosition) {
  at::Tensor ids = at::zeros({2, 5}, at::kInt);
  ids[1][2] = 100;
  EXPECT_THAT(fault_of_tokens(ids), AllOf(HasSubstr("id 100 at position 7"),
                                          HasSubstr("outside the vocabulary, 0 to 99")));
  ids[0][3] = -1;
  EXPECT_THAT(fault_of_tokens(ids), HasSubstr("id -1 at position 3"));
}

TEST(ReadTokens, RefusesOtherTensors) {
  EXPECT_THAT(fault_of([] { read_back("ids", at::zeros({2}, at::kInt), 9); }),
              HasSubstr("tensor 'tokens' is not there"));
  EXPECT_THAT(fault_of_tokens(at::zeros({2})), HasSubstr("dtype F32, expected an integer one"));
  EXPECT_THAT(fault_of_tokens(at::zeros({2}, at::kBool)), HasSubstr("dtype BOOL"));
  EXPECT_THAT(fault_of_tokens(at::zeros({0}, at::kInt)), HasSubstr("is empty"));
  EXPECT_THAT(fault_of_tokens(at::zeros({1, 2, 3}, at::kInt)), HasSubstr("has 3 dimensions"));
  EXPECT_THAT(fault_of_tokens(at::zeros({}, at::kInt)), HasSubstr("has 0 dimensions"));
}

TEST(ReadTokens, RefusesU64ByName) {
  const TemporaryDirectory dir;
  put_file(dir / "f",
           safetensors_bytes(R"({"tokens":{"dtype":"U64","shape":[1],"data_offsets":[0,8]}})", 8));
  EXPECT_THAT(fault_of([&] { read_tokens(dir / "f", 9); }),
              HasSubstr("has dtype U64, expected an integer one"));
}

TEST(CalibrationWindows, SpreadOverTheWholeText) {
  const at::Tensor tokens = at::arange(10 * 3 + 2, at::kLong);
  const at::Tensor windows = calibration_windows(tokens, 4, 3);  // windows 0, 2, 5, 7 of 10
  EXPECT_TRUE(at::equal(
      windows, at::tensor({0, 1, 2, 6, 7, 8, 15, 16, 17, 21, 22, 23}, at::kLong).view({4, 3})));
  EXPECT_TRUE(at::equal(calibration_windows(tokens, 10, 3), tokens.slice(0, 0, 30).view({10, 3})));
}

TEST(CalibrationWindows, AreAtFloorOfIWOverSamples) {
  for (int64_t total = 1; total <= 40; ++total) {
    for (int64_t samples = 1; samples <= total; ++samples) {
      const at::Tensor windows = calibration_windows(at::arange(total, at::kLong), samples, 1);
      for (int64_t i = 0; i < samples; ++i) {
        ASSERT_EQ(windows[i][0].item<int64_t>(), i * total / samples);
      }
    }
  }
}

TEST(CalibrationWindows, SayHowMuchTextIsMissing) {
  const at::Tensor tokens = at::arange(32, at::kLong);
  EXPECT_THAT(fault_of([&] { calibration_windows(tokens, 11, 3); }),
              HasSubstr("32 tokens hold 10 whole windows of seqlen 3, and 11 are needed"));
  EXPECT_THAT(fault_of([&] { calibration_windows(tokens, 0, 3); }), HasSubstr("at least 1"));
  EXPECT_THAT(fault_of([&] { calibration_windows(tokens, 1, 0); }), HasSubstr("at least 1"));
}

TEST(EvaluationWindows, AreAllWholeOnes) {
  const at::Tensor tokens = at::arange(11, at::kLong);
  EXPECT_TRUE(at::equal(evaluation_windows(tokens, 3), tokens.slice(0, 0, 9).view({3, 3})));
  EXPECT_THAT(fault_of([&] { evaluation_windows(tokens, 12); }), HasSubstr("0 whole windows"));
  EXPECT_THAT(fault_of([&] { evaluation_windows(tokens, 1); }), HasSubstr("at least 2"));
}

TEST(UnusedWindows, AreThoseThatTheCalibrationLeavesInTheirOrder) {
  for (int64_t total = 2; total <= 20; ++total) {
    for (int64_t samples = 1; samples < total; ++samples) {
      const at::Tensor tokens = at::arange(2 * total + 1, at::kLong);
      const at::Tensor unused = unused_windows(tokens, samples, 2);
      const at::Tensor both = at::cat({calibration_windows(tokens, samples, 2), unused});
      EXPECT_TRUE(
          at::equal(std::get<0>(both.sort(0)), tokens.narrow(0, 0, 2 * total).view({total, 2})));
      EXPECT_TRUE(at::equal(std::get<0>(unused.sort(0)), unused));
    }
  }
  EXPECT_THAT(fault_of([&] { unused_windows(at::arange(11, at::kLong), 5, 2); }),
              HasSubstr("the calibration uses all 5 windows"));
  EXPECT_THAT(fault_of([&] { unused_windows(at::arange(11, at::kLong), 6, 2); }),
              HasSubstr("6 are needed"));
}

TEST(SpreadWindows, TakesSoManyOfThem) {
  const at::Tensor windows = at::arange(10, at::kLong).view({5, 2});
  EXPECT_TRUE(
      at::equal(spread_windows(windows, 2), at::tensor({0, 1, 4, 5}, at::kLong).view({2, 2})));
  EXPECT_TRUE(at::equal(spread_windows(windows, 5), windows));
  EXPECT_THAT(fault_of([&] { spread_windows(windows, 6); }),
              HasSubstr("evaluation.samples: 6 windows are asked for, and there are 5"));
}

}  // namespace
}  // namespace dotresize
