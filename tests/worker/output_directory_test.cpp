#include "worker/commands/run/output_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/partial_path.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Throws;
using ::testing::ThrowsMessage;

class OutputDirectoryTest : public ::testing::Test {
 protected:
  TemporaryDirectory home_;
  fs::path out_ = home_ / "deep" / "out";
};

TEST_F(OutputDirectoryTest, AppearsWholeAtCommit) {
  OutputDirectory output(out_, false);
  put_file(output.partial() / "model", "weights");
  EXPECT_FALSE(fs::exists(out_));
  output.commit();
  EXPECT_EQ(file_bytes(out_ / "model"), "weights");
  EXPECT_FALSE(fs::exists(output.partial()));
}

/// A rank that fails because its files are gone knows that the job was stopped.
TEST_F(OutputDirectoryTest, StoppingIsSeenByOtherRanksUntilTheNextJob) {
  {
    OutputDirectory rank_0(out_, false);
    fs::create_directory(rank_0.journal());
    put_file(rank_0.journal() / "map-0.json", "{}");
    OutputDirectory rank_1(out_);
    EXPECT_FALSE(rank_0.stopped());
    rank_1.stop();
    EXPECT_TRUE(rank_0.stopped());
    EXPECT_TRUE(fs::exists(rank_0.journal()));
  }
  EXPECT_FALSE(OutputDirectory(out_, false).stopped());
}

TEST_F(OutputDirectoryTest, StoppingIsSeenInADirectoryThatIsGone) {
  OutputDirectory rank_0(out_, false);
  OutputDirectory rank_1(out_);
  rank_1.stop();
  EXPECT_FALSE(fs::exists(rank_0.partial()));
  EXPECT_TRUE(rank_0.stopped());
  EXPECT_FALSE(OutputDirectory(out_, false).stopped());
}

TEST_F(OutputDirectoryTest, LeavesNothingBehindWithoutCommit) {
  {
    OutputDirectory output(out_, false);
    put_file(output.partial() / "model", "torn");
  }
  EXPECT_TRUE(fs::is_empty(out_.parent_path()));
}

TEST_F(OutputDirectoryTest, DiscardAfterCommitKeepsTheModel) {
  OutputDirectory output(out_, false);
  output.commit();
  output.discard();
  EXPECT_TRUE(fs::exists(out_));
}

TEST_F(OutputDirectoryTest, AnyRankRemovesItUntilItHasLeft) {
  OutputDirectory output(out_, false);
  {
    OutputDirectory of_another_rank(out_);
    of_another_rank.leave();
  }
  EXPECT_TRUE(fs::exists(output.partial()));
  { const OutputDirectory of_another_rank(out_); }
  EXPECT_FALSE(fs::exists(output.partial()));
}

TEST_F(OutputDirectoryTest, OneOfALaterJobIsNotRemoved) {
  OutputDirectory output(out_, false);
  const fs::path partial = output.partial();
  fs::remove_all(partial);
  fs::create_directory(partial);
  output.discard();
  EXPECT_TRUE(fs::exists(partial));
}

TEST_F(OutputDirectoryTest, RefusesAnExistingOutput) {
  fs::create_directories(out_);
  EXPECT_THAT([&] { OutputDirectory(out_, false); },
              ThrowsMessage<InputError>(HasSubstr("output.overwrite")));
}

TEST_F(OutputDirectoryTest, OverwriteReplacesTheOldModelAtCommitAlone) {
  fs::create_directories(out_);
  put_file(out_ / "model", "old");
  OutputDirectory output(out_, true);
  put_file(output.partial() / "model", "new");
  EXPECT_EQ(file_bytes(out_ / "model"), "old");
  output.commit();
  EXPECT_EQ(file_bytes(out_ / "model"), "new");
  EXPECT_FALSE(fs::exists(output.partial()));
}

TEST_F(OutputDirectoryTest, StartsEmptyAfterACrash) {
  fs::create_directories(partial_path(out_) / "dotresize");
  put_file(partial_path(out_) / "model", "torn");
  OutputDirectory output(out_, false);
  EXPECT_TRUE(fs::is_empty(output.partial()));
}

/// A journal with a map, as an interrupted job leaves it.
void put_journal(const fs::path& partial) {
  fs::create_directories(partial / kJournalDirectory);
  put_file(partial / kJournalDirectory / kJournalOfJob, "{}");
  put_file(partial / kJournalDirectory / "map-0.json", "{}");
}

TEST_F(OutputDirectoryTest, KeepsTheJournalOfAnInterruptedJobAlone) {
  put_journal(partial_path(out_));
  put_file(partial_path(out_) / "model", "torn");
  {
    OutputDirectory output(out_, false);
    EXPECT_FALSE(fs::exists(output.partial() / "model"));
    EXPECT_TRUE(fs::exists(output.journal() / "map-0.json"));
    put_file(output.partial() / "model", "torn again");
  }
  EXPECT_FALSE(fs::exists(partial_path(out_) / "model"));
  EXPECT_TRUE(fs::exists(partial_path(out_) / kJournalDirectory / "map-0.json"));
  OutputDirectory output(out_, false);
  output.remove_journal();
  output.commit();
  EXPECT_TRUE(fs::is_empty(out_));
}

TEST_F(OutputDirectoryTest, StartsAnewIfAsked) {
  put_journal(partial_path(out_));
  OutputDirectory output(out_, false, /*fresh=*/true);
  EXPECT_TRUE(fs::is_empty(output.partial()));
}

TEST_F(OutputDirectoryTest, KeepsNoJournalWithoutEntries) {
  {
    OutputDirectory output(out_, false);
    fs::create_directory(output.journal());
    put_file(output.journal() / kJournalOfJob, "{}");
  }
  EXPECT_TRUE(fs::is_empty(out_.parent_path()));
}

TEST_F(OutputDirectoryTest, IsForOneJobAtATime) {
  OutputDirectory first(out_, false);
  EXPECT_THAT([&] { OutputDirectory(out_, false); },
              ThrowsMessage<InputError>(HasSubstr("another job")));
}

TEST_F(OutputDirectoryTest, DoesNotFollowALinkInPlaceOfThePartialDirectory) {
  fs::create_directories(home_ / "victim");
  put_file(home_ / "victim" / "file", "kept");
  fs::create_directories(out_.parent_path());
  fs::create_directory_symlink(home_ / "victim", partial_path(out_));
  EXPECT_THAT([&] { OutputDirectory(out_, false); }, Throws<InputError>());
  EXPECT_EQ(file_bytes(home_ / "victim" / "file"), "kept");
}

}  // namespace
}  // namespace dotresize
