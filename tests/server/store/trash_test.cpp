#include "server/store/trash.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

bool empties(const fs::path& folder) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!fs::is_empty(folder)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

class TrashTest : public ::testing::Test {
 protected:
  TrashTest() {
    fs::create_directories(dir_);
    put_file(dir_ / "file", "x");
  }

  TemporaryDirectory home_;
  fs::path folder_ = home_ / "trash";
  fs::path dir_ = fs::canonical(home_.path()) / "outputs" / "dir";
};

TEST_F(TrashTest, WhatIsTakenIsGoneAtOnceAndRemovedByAnotherThread) {
  Trash trash(folder_);
  TrashedDirectory moved = trash.take(dir_);
  EXPECT_FALSE(fs::exists(dir_));
  EXPECT_FALSE(fs::is_empty(folder_)) << "the caller removes nothing itself";
  moved.remove();
  EXPECT_TRUE(empties(folder_));
}

TEST_F(TrashTest, WhatIsNotToBeRemovedComesBack) {
  Trash trash(folder_);
  { const TrashedDirectory moved = trash.take(dir_); }
  EXPECT_EQ(file_bytes(dir_ / "file"), "x");
  { const TrashedDirectory moved = trash.take_beside(dir_, dir_); }
  EXPECT_EQ(file_bytes(dir_ / "file"), "x");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(TrashTest, OfAnotherFileSystemIsRemovedWhereItLies) {
  Trash trash(folder_);
  TrashedDirectory moved = trash.take_beside(dir_, dir_);
  EXPECT_FALSE(fs::exists(dir_));
  moved.remove();
  EXPECT_TRUE(empties(folder_));
  EXPECT_TRUE(fs::is_empty(dir_.parent_path()));
}

TEST_F(TrashTest, WhatAKilledServerLeftIsRemovedByTheNext) {
  fs::create_directories(folder_);
  fs::rename(dir_, folder_ / "left");
  fs::create_directory(dir_.parent_path() / ".out.deleted-1");
  fs::create_directory_symlink(dir_.parent_path() / ".out.deleted-1", folder_ / "note");
  fs::create_directory(dir_.parent_path() / "other");
  fs::create_directory_symlink(dir_.parent_path() / "other", folder_ / "forged");
  const Trash trash(folder_);
  EXPECT_TRUE(empties(folder_));
  EXPECT_FALSE(fs::exists(dir_.parent_path() / ".out.deleted-1"));
  EXPECT_TRUE(fs::exists(dir_.parent_path() / "other"));
}

}  // namespace
}  // namespace dotresize
