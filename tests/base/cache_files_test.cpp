#include "base/files/cache_files.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

TEST(CacheFiles, AFileIsBelievedOnlyWithItsSeal) {
  const TemporaryDirectory dir;
  const fs::path file = dir.write("tokens", "content");
  EXPECT_FALSE(is_sealed(file));
  EXPECT_FALSE(is_sealed(dir / "missing"));
  seal_file(file);
  EXPECT_TRUE(is_sealed(file));
  put_file(file, "Content");
  EXPECT_FALSE(is_sealed(file));
  put_file(file, "content");
  EXPECT_TRUE(is_sealed(file));
}

TEST(CacheFiles, AFileThatOthersCanWriteIsNotBelieved) {
  const TemporaryDirectory dir;
  const fs::path file = dir.write("tokens", "content");
  seal_file(file);
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(is_sealed(file));
}

TEST(CacheFiles, ALinkIsNotBelieved) {
  const TemporaryDirectory dir;
  const fs::path file = dir.write("tokens", "content");
  seal_file(file);
  fs::create_symlink("tokens", dir / "link");
  fs::copy_file(dir / "tokens.sha256", dir / "link.sha256");
  EXPECT_FALSE(is_sealed(dir / "link"));
}

/// Three files of 100 bytes with seals, "0" used last and "2" the longest time ago.
void fill(const TemporaryDirectory& dir) {
  for (int i = 0; i < 3; ++i) {
    const fs::path file = dir.write(std::to_string(i), std::string(100, 'x'));
    seal_file(file);
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(i));
  }
}

TEST(CacheFiles, TheFilesUsedLongestAgoMakeRoom) {
  const TemporaryDirectory dir;
  fill(dir);
  trim_cache(dir.path(), 250);
  EXPECT_TRUE(is_sealed(dir / "0"));
  EXPECT_TRUE(is_sealed(dir / "1"));
  EXPECT_FALSE(fs::exists(dir / "2"));
  EXPECT_FALSE(fs::exists(dir / "2.sha256"));
}

TEST(CacheFiles, NothingIsRemovedThatIsInUse) {
  const TemporaryDirectory dir;
  fill(dir);
  {
    const CacheUse use(dir.path());
    trim_cache(dir.path(), 0);
    EXPECT_TRUE(is_sealed(dir / "2"));
  }
  trim_cache(dir.path(), 0);
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

}  // namespace
}  // namespace dotresize
