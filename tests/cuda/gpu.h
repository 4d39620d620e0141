#pragma once

#include <gtest/gtest.h>

#include "worker/cuda/cuda_module.h"

namespace dotresize {

/// Exit code for CTest of a program that skipped all of its tests.
inline constexpr int kAllSkipped = 77;

/// A test that needs a GPU. Skips itself, with the reason, if there is none.
class OnGpu : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (ask_driver().fault.empty()) open_cuda_module().use(0);
  }
  void SetUp() override {
    if (const std::string reason = ask_driver().fault; !reason.empty()) GTEST_SKIP() << reason;
  }
};

}  // namespace dotresize
