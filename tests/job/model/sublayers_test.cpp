#include <gtest/gtest.h>

#include "job/model/model_config.h"

namespace dotresize {
namespace {

TEST(Sublayers, TakeTurns) {
  EXPECT_TRUE(is_attention(6));
  EXPECT_FALSE(is_attention(7));
}

TEST(Sublayers, HaveNamesThatFollowTheStream) {
  EXPECT_EQ(sublayer_name(6), "layers.3.attention");
  EXPECT_EQ(sublayer_name(7), "layers.3.mlp");
  EXPECT_EQ(junction_name(0), "embed");
  EXPECT_EQ(junction_name(1), "layers.0.attention");
  EXPECT_EQ(junction_name(8), "layers.3.mlp");
}

}  // namespace
}  // namespace dotresize
