#include "server/store/files.h"

#include <gtest/gtest.h>

#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

TEST(WritePrivateFile, LetsNobodyElseRead) {
  const TemporaryDirectory dir;
  write_private_file(dir / "job.json", "{}");
  EXPECT_EQ(file_bytes(dir / "job.json"), "{}");
  EXPECT_EQ(std::filesystem::status(dir / "job.json").permissions(), std::filesystem::perms(0600));
}

}  // namespace
}  // namespace dotresize
