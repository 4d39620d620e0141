#include "worker/run/output_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "job/errors.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Throws;
using ::testing::ThrowsMessage;

class OutputDirectoryTest : public ::testing::Test {
 protected:
  OutputDirectoryTest() {
    std::string name = (fs::temp_directory_path() / "dotresize-output.XXXXXX").string();
    home_ = ::mkdtemp(name.data());
    out_ = home_ / "deep" / "out";
  }
  ~OutputDirectoryTest() override { fs::remove_all(home_); }

  void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  fs::path home_;
  fs::path out_;
};

TEST_F(OutputDirectoryTest, AppearsWholeAtCommit) {
  OutputDirectory output(out_, false);
  write(output.partial() / "model", "weights");
  EXPECT_FALSE(fs::exists(out_));
  output.commit();
  EXPECT_EQ(read(out_ / "model"), "weights");
  EXPECT_FALSE(fs::exists(output.partial()));
}

TEST_F(OutputDirectoryTest, LeavesNothingBehindWithoutCommit) {
  {
    OutputDirectory output(out_, false);
    write(output.partial() / "model", "torn");
  }
  EXPECT_TRUE(fs::is_empty(out_.parent_path()));
}

TEST_F(OutputDirectoryTest, DiscardAfterCommitKeepsTheModel) {
  OutputDirectory output(out_, false);
  output.commit();
  output.discard();
  EXPECT_TRUE(fs::exists(out_));
}

TEST_F(OutputDirectoryTest, RefusesAnExistingOutput) {
  fs::create_directories(out_);
  EXPECT_THAT([&] { OutputDirectory(out_, false); },
              ThrowsMessage<InputError>(HasSubstr("output.overwrite")));
}

TEST_F(OutputDirectoryTest, OverwriteReplacesTheOldModelAtCommitAlone) {
  fs::create_directories(out_);
  write(out_ / "model", "old");
  OutputDirectory output(out_, true);
  write(output.partial() / "model", "new");
  EXPECT_EQ(read(out_ / "model"), "old");
  output.commit();
  EXPECT_EQ(read(out_ / "model"), "new");
  EXPECT_FALSE(fs::exists(output.partial()));
}

TEST_F(OutputDirectoryTest, StartsEmptyAfterACrash) {
  fs::create_directories(partial_path(out_) / "dotresize");
  write(partial_path(out_) / "model", "torn");
  OutputDirectory output(out_, false);
  EXPECT_TRUE(fs::is_empty(output.partial()));
}

TEST_F(OutputDirectoryTest, IsForOneJobAtATime) {
  OutputDirectory first(out_, false);
  EXPECT_THAT([&] { OutputDirectory(out_, false); },
              ThrowsMessage<InputError>(HasSubstr("another job")));
}

TEST_F(OutputDirectoryTest, DoesNotFollowALinkInPlaceOfThePartialDirectory) {
  fs::create_directories(home_ / "victim");
  write(home_ / "victim" / "file", "kept");
  fs::create_directories(out_.parent_path());
  fs::create_directory_symlink(home_ / "victim", partial_path(out_));
  EXPECT_THAT([&] { OutputDirectory(out_, false); }, Throws<InputError>());
  EXPECT_EQ(read(home_ / "victim" / "file"), "kept");
}

}  // namespace
}  // namespace dotresize
