#include "worker/calibration/reason.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

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

template <typename Error>
std::string told_at_junction(const Error& error) {
  try {
    with_context("junction 3", [&] { throw error; });
  } catch (const Error& with_where) {
    return with_where.what();
  }
  return "";
}

TEST(Reason, SaysWhereAndKeepsTheTypesThatDecide) {
  EXPECT_EQ(told_at_junction(InputError("method.width", "bad")), "junction 3: method.width: bad");
  EXPECT_EQ(told_at_junction(NonFiniteError("infinite")), "junction 3: infinite");
  EXPECT_EQ(told_at_junction(std::runtime_error("failed")), "junction 3: failed");
  EXPECT_EQ(with_context("junction 3", [] { return 5; }), 5);
}

/// Errors of libtorch do not derive from std::runtime_error.
TEST(Reason, SaysWhereAnErrorOfLibtorchCameFrom) {
  const auto told = [](const auto& step) -> std::string {
    try {
      with_context("junction 3", step);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(told([] { TORCH_CHECK_LINALG(false, "eigh did not converge"); }),
            "junction 3: eigh did not converge");
  EXPECT_EQ(told([] { TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory"); }),
            "junction 3: CUDA out of memory");
}

}  // namespace
}  // namespace dotresize
