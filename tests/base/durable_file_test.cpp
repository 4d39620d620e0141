#include "base/files/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iterator>
#include <system_error>

#include "tests/limited_file_size.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

auto files_in(const fs::path& dir) {
  return std::distance(fs::directory_iterator(dir), fs::directory_iterator());
}

TEST(WriteFileAtomically, ReplacesTheContentAndLeavesNothingElse) {
  const TemporaryDirectory dir;
  write_file_atomically(dir / "config.json", "old");
  write_file_atomically(dir / "config.json", std::string("new\0text", 8));
  EXPECT_EQ(file_bytes(dir / "config.json"), std::string("new\0text", 8));
  EXPECT_EQ(files_in(dir.path()), 1);
  const auto mode = fs::status(dir / "config.json").permissions();
  EXPECT_EQ(mode & fs::perms::mask, fs::perms(0644) & ~fs::perms(::umask(::umask(0))));
}

TEST(WriteFileAtomically, GivesThePermissionsAskedFor) {
  const TemporaryDirectory dir;
  write_file_atomically(dir / "token", "secret", 0600);
  EXPECT_EQ(fs::status(dir / "token").permissions(), fs::perms(0600));
}

TEST(WriteFileAtomically, KeepsTheOldContentWhenTheDiskFails) {
  const TemporaryDirectory dir;
  write_file_atomically(dir / "config.json", "old");
  {
    const LimitedFileSize limit(1000);
    try {
      write_file_atomically(dir / "config.json", std::string(5000, 'x'));
      FAIL() << "wrote more than the limit";
    } catch (const std::system_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("cannot write the file: File too large"));
    }
  }
  EXPECT_EQ(file_bytes(dir / "config.json"), "old");
  EXPECT_EQ(files_in(dir.path()), 1);
}

TEST(WriteFileAtomically, KeepsTheOldContentWhenTheProcessIsKilled) {
  const TemporaryDirectory dir;
  write_file_atomically(dir / "config.json", "old");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // SIGXFSZ kills it in the middle of the content
    const rlimit limit = {1000, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_DFL);
    write_file_atomically(dir / "config.json", std::string(5000, 'x'));
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(file_bytes(dir / "config.json"), "old");
}

TEST(WriteFileAtomically, SaysWhyItCannot) {
  try {
    write_file_atomically("/nonexistent/config.json", "x");
    FAIL() << "wrote into a directory that is not there";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("No such file or directory"));
  }
}

TEST(SyncDirectory, SaysWhyItCannot) {
  const TemporaryDirectory dir;
  EXPECT_NO_THROW(sync_directory(dir.path()));
  EXPECT_THROW(sync_directory(dir / "none"), std::system_error);
}

}  // namespace
}  // namespace dotresize
