#include <gtest/gtest.h>

#include "base/text/human_text.h"

namespace dotresize {
namespace {

const std::vector<std::string> kKeys = {"name", "sparsity", "width", "lambda"};

TEST(Wording, ClosestForgivesASlipOfThePen) {
  EXPECT_EQ(closest("sparsty", kKeys), "sparsity");
  EXPECT_EQ(closest("widht", kKeys), "width");
  EXPECT_EQ(closest("Lambda", kKeys), "lambda");
}

TEST(Wording, ClosestDoesNotGuessWildly) {
  EXPECT_EQ(closest("temperature", kKeys), "");
  EXPECT_EQ(closest("x", kKeys), "");
  EXPECT_EQ(closest("", kKeys), "");
  EXPECT_EQ(closest(std::string(1'000'000, 'n'), kKeys), "");
}

TEST(HumanNumbers, SeparatorsStandBetweenThousands) {
  EXPECT_EQ(with_separators(0), "0");
  EXPECT_EQ(with_separators(999), "999");
  EXPECT_EQ(with_separators(1000), "1,000");
  EXPECT_EQ(with_separators(8030261248), "8,030,261,248");
  EXPECT_EQ(with_separators(-123456), "-123,456");
}

TEST(HumanNumbers, OneThingIsNotSeveral) {
  EXPECT_EQ(counted(1, "problem"), "1 problem");
  EXPECT_EQ(counted(0, "problem"), "0 problems");
  EXPECT_EQ(counted(2048, "file"), "2,048 files");
}

TEST(HumanNumbers, BytesAreInBinaryUnits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.00 KiB");
  EXPECT_EQ(human_bytes(int64_t{15} << 30), "15.0 GiB");
}

}  // namespace
}  // namespace dotresize
