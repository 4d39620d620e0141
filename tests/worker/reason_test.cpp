#include "worker/commands/reason.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace dotresize {
namespace {

TEST(Reason, HasNoStackTrace) {
  try {
    TORCH_CHECK(false, "the sums must be float64");
  } catch (const std::exception& error) {
    EXPECT_EQ(reason_of(error), "the sums must be float64");
  }
}

TEST(Reason, IsWhatAnotherErrorSays) {
  EXPECT_EQ(reason_of(std::runtime_error("no space left")), "no space left");
}

}  // namespace
}  // namespace dotresize
