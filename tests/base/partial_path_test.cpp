#include "base/files/partial_path.h"

#include <gtest/gtest.h>

namespace dotresize {
namespace {

TEST(PartialPath, IsBesideTheOutput) {
  EXPECT_EQ(partial_path("/a/out"), "/a/out.partial");
  EXPECT_EQ(partial_path("/a/out/"), "/a/out.partial");
  EXPECT_EQ(replaced_path("/a/out.v1"), "/a/out.v1.replaced");
}

TEST(PartialPath, IsTheNameOfNoOutput) {
  EXPECT_TRUE(is_unfinished_output(partial_path("/a/out")));
  EXPECT_TRUE(is_unfinished_output(replaced_path("/a/out")));
  EXPECT_FALSE(is_unfinished_output("/a.partial/out"));
  EXPECT_FALSE(is_unfinished_output("/a/partial"));
}

}  // namespace
}  // namespace dotresize
