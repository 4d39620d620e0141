#include "base/files/file_changes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <vector>

#include "base/errors.h"
#include "base/files/directory.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

/// A directory whose entry `way` is a link to another user's directory with a file.
class FileChangesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(own_);
    fs::create_directories(foreign_ / "full");
    put_file(foreign_ / "full" / "file", "kept");
    put_file(own_ / "file", "own");
    fs::create_symlink(foreign_, own_ / "way");
  }

  bool is_untouched() const {
    return file_bytes(foreign_ / "full" / "file") == "kept" &&
           std::distance(fs::directory_iterator(foreign_), {}) == 1;
  }

  TemporaryDirectory dir_;
  fs::path own_ = fs::canonical(dir_.path()) / "own";
  fs::path foreign_ = fs::canonical(dir_.path()) / "foreign";
};

TEST_F(FileChangesTest, BelowADescriptorNoChangeFollowsALink) {
  const PinnedDirectory pinned(own_);
  ASSERT_TRUE(pinned);
  const fs::path at = pinned.path();
  const std::vector<std::function<void()>> changes = {
      [&] { files::create_directory(at / "way"); },
      [&] { files::create_directory(at / "way" / "new"); },
      [&] { files::create_directories(at / "way" / "new" / "newer"); },
      [&] { files::remove(at / "way" / "full" / "file"); },
      [&] { files::remove_all(at / "way" / "full"); },
      [&] { files::rename(at / "way" / "full", at / "taken"); },
      [&] { files::rename(at / "file", at / "way" / "file"); },
      [&] { files::create_symlink("x", at / "way" / "link"); },
      [&] { files::copy_file(at / "file", at / "way" / "file"); },
  };
  for (const auto& change : changes) {
    EXPECT_ANY_THROW(change());
    EXPECT_TRUE(is_untouched());
  }
  std::error_code error;
  files::exchange(at / "file", at / "way" / "full", error);
  EXPECT_TRUE(error);
  files::rename_to_free_name(at / "file", at / "way" / "file", error);
  EXPECT_TRUE(error);
  files::touch(at / "way" / "full" / "file", error);
  EXPECT_TRUE(error);
  EXPECT_TRUE(is_untouched());
}

TEST_F(FileChangesTest, ADirectoryThatGetsAnotherNameMeanwhileIsStillTheOneThatIsChanged) {
  const PinnedDirectory pinned(own_);
  fs::rename(own_, dir_ / "moved");
  fs::create_symlink(foreign_, own_);
  files::create_directories(pinned.path() / "new" / "newer");
  files::remove_all(pinned.path() / "full");
  EXPECT_TRUE(fs::is_directory(dir_ / "moved" / "new" / "newer"));
  EXPECT_TRUE(is_untouched());
}

TEST_F(FileChangesTest, RemovesALinkAndNotWhatItLeadsTo) {
  files::remove_all(own_ / "way");
  EXPECT_FALSE(fs::exists(fs::symlink_status(own_ / "way")));
  EXPECT_TRUE(is_untouched());
}

TEST_F(FileChangesTest, APathThatEndsInDotsIsNoEntry) {
  for (const char* name : {".", "..", "way/.."}) {
    std::error_code error;
    files::remove_all(own_ / name, error);
    EXPECT_EQ(error, std::errc::invalid_argument) << name;
  }
  EXPECT_TRUE(fs::exists(own_ / "file"));
}

TEST_F(FileChangesTest, AConfinedProcessChangesNothingElsewhere) {
  EXPECT_EXIT(
      {
        confine_process({own_});
        std::error_code error;
        const auto refused = [&error] { return error == std::errc::permission_denied; };
        files::remove_all(own_ / "way" / "full", error);
        bool all = refused();
        files::rename(foreign_ / "full", own_ / "full", error);
        all = all && refused();
        files::create_directories(foreign_ / "new", error);
        all = all && refused();
        files::create_directories(own_ / "new" / "newer", error);
        ::_exit(all && !error ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_TRUE(is_untouched());
  EXPECT_TRUE(fs::is_directory(own_ / "new" / "newer"));
}

TEST_F(FileChangesTest, AFreeNameIsNotTakenTwice) {
  put_file(own_ / "other", "other");
  std::error_code error;
  files::rename_to_free_name(own_ / "other", own_ / "file", error);
  EXPECT_EQ(error, std::errc::file_exists);
  EXPECT_EQ(file_bytes(own_ / "file"), "own");
  files::rename_to_free_name(own_ / "other", own_ / "free", error);
  EXPECT_FALSE(error);
  EXPECT_EQ(file_bytes(own_ / "free"), "other");
}

TEST_F(FileChangesTest, ADirectoryIsNewOrNot) {
  EXPECT_TRUE(files::create_directory(own_ / "private", 0700));
  EXPECT_FALSE(files::create_directory(own_ / "private", 0700));
  EXPECT_EQ(fs::status(own_ / "private").permissions(), fs::perms::owner_all);
  EXPECT_TRUE(files::create_directories(own_ / "a" / "b"));
  EXPECT_FALSE(files::create_directories(own_ / "a" / "b"));
  EXPECT_THROW(files::create_directory(own_ / "file"), std::system_error);
}

}  // namespace
}  // namespace dotresize
