#include "base/files/confinement.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/errors.h"
#include "base/files/directory.h"
#include "base/files/input_file.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class ConfinementTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root_ / "model");
    fs::create_directories(elsewhere_);
    put_file(elsewhere_ / "secret", "secret");
    put_file(root_ / "model" / "config.json", "{}");
  }

  std::string read(const fs::path& path) const { return read_whole_file(path, 100, confinement_); }

  TemporaryDirectory dir_;
  fs::path root_ = dir_ / "root";
  fs::path elsewhere_ = dir_ / "elsewhere";
  Confinement confinement_{{root_}};
};

TEST_F(ConfinementTest, ReadsBeneathItsRoots) {
  EXPECT_EQ(read(root_ / "model" / "config.json"), "{}");
  EXPECT_EQ(read(root_ / "model" / ".." / "model" / "config.json"), "{}");
}

TEST_F(ConfinementTest, FollowsLinksThatStayBeneathThem) {
  fs::create_symlink("../model/config.json", root_ / "model" / "relative");
  fs::create_symlink(root_ / "model", root_ / "absolute");
  EXPECT_EQ(read(root_ / "model" / "relative"), "{}");
  EXPECT_EQ(read(root_ / "absolute" / "config.json"), "{}");
}

TEST_F(ConfinementTest, RefusesWhatLiesElsewhereUnderAnyName) {
  fs::create_symlink(elsewhere_ / "secret", root_ / "file");
  fs::create_symlink("../elsewhere", root_ / "directory");
  for (const fs::path& path :
       {elsewhere_ / "secret", root_ / "file", root_ / "directory" / "secret",
        root_ / ".." / "elsewhere" / "secret", dir_ / "root2"}) {
    EXPECT_THAT([&] { read(path); }, ThrowsMessage<InputError>(HasSubstr("--allow-root"))) << path;
  }
}

TEST_F(ConfinementTest, WritesBeneathItsRootsAlone) {
  fs::create_symlink(elsewhere_, root_ / "out");
  EXPECT_THROW(
      confinement_.open(root_ / "out" / "README.md", O_WRONLY | O_CREAT | O_NOFOLLOW, 0644),
      InputError);
  EXPECT_THROW(confinement_.make_directories(root_ / "out" / "deeper"), InputError);
  EXPECT_TRUE(fs::exists(elsewhere_ / "secret"));
  EXPECT_FALSE(fs::exists(elsewhere_ / "deeper"));
  EXPECT_TRUE(confinement_.make_directories(root_ / "a" / "b"));
  EXPECT_TRUE(confinement_.open(root_ / "a" / "b" / "f", O_WRONLY | O_CREAT | O_NOFOLLOW, 0644));
  EXPECT_TRUE(fs::exists(root_ / "a" / "b" / "f"));
}

/// The directory is replaced by a link between the check and the opening.
TEST_F(ConfinementTest, OpensNothingThroughALinkThatComesLater) {
  const PinnedDirectory root(fs::canonical(root_));
  fs::rename(root_ / "model", root_ / "before");
  fs::create_symlink(elsewhere_, root_ / "model");
  const UniqueFd file = open_beneath(root.descriptor(), "model/secret", O_RDONLY);
  EXPECT_FALSE(file);
  EXPECT_EQ(errno, ELOOP);
  EXPECT_FALSE(root.enter("model"));
  EXPECT_FALSE(open_beneath(root.descriptor(), "../elsewhere/secret", O_RDONLY));
  EXPECT_EQ(errno, EXDEV);
}

TEST_F(ConfinementTest, AnOpenDirectoryStaysTheSameUnderAnotherName) {
  const PinnedDirectory root(fs::canonical(root_));
  const PinnedDirectory model = root.enter("model");
  fs::rename(root_ / "model", root_ / "before");
  fs::create_directory(root_ / "model");
  EXPECT_EQ(read_whole_file(model.path() / "config.json", 100), "{}");
  EXPECT_EQ(shown_path(model.path() / "config.json"), fs::canonical(root_) / "before/config.json");
  EXPECT_TRUE(root.holds("before", model));
  EXPECT_FALSE(root.holds("model", model));
  fs::create_symlink(elsewhere_, root_ / "before" / "dotresize");
  EXPECT_THROW(read_whole_file(model.path() / "dotresize" / "secret", 100), InputError);
}

}  // namespace
}  // namespace dotresize
