#include "base/errors.h"

#include <gtest/gtest.h>

namespace dotresize {
namespace {

TEST(InputError, NamesItsFieldOnce) {
  const InputError error("method.width", "7 is too much: 6 is the most");
  EXPECT_STREQ(error.what(), "method.width: 7 is too much: 6 is the most");
  EXPECT_EQ(error.field(), "method.width");
  EXPECT_EQ(error.description(), "7 is too much: 6 is the most");
}

TEST(InputError, FindsNoFieldInItsText) {
  const InputError error("method.width: 7");
  EXPECT_STREQ(error.what(), "method.width: 7");
  EXPECT_EQ(error.field(), "");
  EXPECT_EQ(error.description(), "method.width: 7");
}

}  // namespace
}  // namespace dotresize
