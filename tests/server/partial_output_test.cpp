#include <gtest/gtest.h>

#include <fstream>

#include "server/files.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

class PartialOutput : public ::testing::Test {
 protected:
  PartialOutput() {
    fs::create_directories(home_.path() / "victim");
    std::ofstream(home_.path() / "victim/model") << "x";
  }
  fs::path beside(const char* suffix) const { return output() + suffix; }
  std::string output() const { return (home_.path() / "out").string(); }

  TemporaryDirectory home_;
};

TEST_F(PartialOutput, IsRemovedButNotWhatItLinksTo) {
  fs::create_directories(beside(".partial") / "dotresize");
  fs::create_directory_symlink(home_.path() / "victim", beside(".partial") / "link");
  remove_partial_output(output() + "/");
  EXPECT_FALSE(fs::exists(beside(".partial")));
  EXPECT_TRUE(fs::exists(home_.path() / "victim/model"));
}

TEST_F(PartialOutput, StaysWhileSomebodyElseHoldsTheLock) {
  fs::create_directories(beside(".partial"));
  const UniqueFd held = try_lock_directory(beside(".partial"));
  remove_partial_output(output());
  EXPECT_TRUE(fs::exists(beside(".partial")));
}

TEST_F(PartialOutput, NothingElseIsTouched) {
  fs::create_directory_symlink(home_.path() / "victim", beside(".partial"));
  remove_partial_output(output());
  EXPECT_TRUE(fs::is_symlink(beside(".partial")));
  EXPECT_TRUE(fs::exists(home_.path() / "victim/model"));
}

}  // namespace
}  // namespace dotresize
