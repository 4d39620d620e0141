#include "server/store/job_output.h"

#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/files/output_owner.h"
#include "base/files/partial_path.h"
#include "server/store/files.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

class JobOutputTest : public ::testing::Test {
 protected:
  JobOutputTest() {
    fs::create_directories(home_ / "victim");
    put_file(home_ / "victim" / "model", "x");
  }
  fs::path partial() const { return partial_path(out_); }
  void put_partial(const std::string& job_id) const {
    fs::create_directories(partial() / kJournalDirectory);
    write_output_owner(partial() / kJournalDirectory, {job_id, 1});
    put_file(partial() / "model", "torn");
  }
  void discard() { JobOutput(out_, "j-1").discard(trash_).remove(); }

  TemporaryDirectory home_;
  fs::path out_ = fs::canonical(home_.path()) / "deep" / "out";
  Trash trash_{home_ / "trash"};
};

TEST_F(JobOutputTest, UnfinishedOutputGoesButNotWhatItLinksTo) {
  put_partial("j-1");
  fs::create_directory_symlink(home_ / "victim", partial() / "link");
  discard();
  EXPECT_FALSE(fs::exists(partial()));
  EXPECT_TRUE(fs::exists(home_ / "victim" / "model"));
}

TEST_F(JobOutputTest, StaysWhileSomebodyElseHoldsTheLock) {
  put_partial("j-1");
  const UniqueFd held = try_lock_file(partial(), LockedFile::kDirectory);
  discard();
  EXPECT_TRUE(fs::exists(partial()));
}

TEST_F(JobOutputTest, OfAnotherJobOrOfNobodyIsNotTouched) {
  put_partial("j-2");
  discard();
  JobOutput(out_, "j-1").trim();
  EXPECT_TRUE(fs::exists(partial() / "model"));
  fs::remove_all(partial());
  fs::create_directories(partial());
  put_file(partial() / "thesis", "only copy");
  discard();
  JobOutput(out_, "j-1").trim();
  EXPECT_EQ(file_bytes(partial() / "thesis"), "only copy");
}

TEST_F(JobOutputTest, OfAJobThatWasKilledBeforeItSaidWhoseItIsGoes) {
  const auto put_journal = [&](const std::string& file) {
    fs::create_directories(partial() / kJournalDirectory);
    put_file(partial() / kJournalDirectory / file, "{");
  };
  put_journal("owner.json.tmp-123");
  discard();
  EXPECT_FALSE(fs::exists(partial()));
  put_journal("owner.json.tmp-123");
  JobOutput(out_, "j-1").trim();
  EXPECT_FALSE(fs::exists(partial()));
  put_journal("owner.json.tmp-123");
  put_journal("map-0.json");
  discard();
  JobOutput(out_, "j-1").trim();
  EXPECT_TRUE(fs::exists(partial() / kJournalDirectory / "map-0.json"));
}

TEST_F(JobOutputTest, LinkInItsPlaceOrOnTheWayIsNotFollowed) {
  fs::create_directories(out_.parent_path());
  fs::create_directory_symlink(home_ / "victim", partial());
  discard();
  EXPECT_TRUE(fs::exists(home_ / "victim" / "model"));

  fs::remove(partial());
  put_partial("j-1");
  fs::rename(out_.parent_path(), home_ / "elsewhere");
  fs::create_directory_symlink(home_ / "elsewhere", out_.parent_path());
  discard();
  JobOutput(out_, "j-1").trim();
  EXPECT_TRUE(fs::exists(home_ / "elsewhere" / "out.partial" / "model"));
}

TEST_F(JobOutputTest, BytesOfTheUnfinishedOutputAreCountedAsFarAsTheyCanBe) {
  const JobOutput output(out_, "j-1");
  EXPECT_EQ(output.unfinished_bytes(), 0);
  fs::create_directories(partial() / "closed");
  put_file(partial() / "model", "torn");
  put_file(partial() / "closed" / "file", "12345");
  fs::create_symlink(home_ / "victim" / "model", partial() / "link");
  EXPECT_EQ(output.unfinished_bytes(), 9) << "a link counts nothing";
  fs::permissions(partial() / "closed", fs::perms::none);
  EXPECT_GE(output.unfinished_bytes(), 4) << "root reads the closed one too";
  fs::permissions(partial() / "closed", fs::perms::owner_all);

  fs::rename(partial(), home_ / "elsewhere");
  fs::create_directory_symlink(home_ / "elsewhere", partial());
  EXPECT_EQ(output.unfinished_bytes(), 0) << "a link is in its place";
}

TEST_F(JobOutputTest, PinnedFileIsReadIfNoLinkIsOnItsWay) {
  fs::create_directories(out_);
  put_file(out_ / "report", "text");
  EXPECT_EQ(read_pinned_file(out_ / "report", 4), "text");
  EXPECT_THROW(read_pinned_file(out_ / "report", 3), InputError);
  EXPECT_FALSE(read_pinned_file(out_ / "other", 4));
  EXPECT_FALSE(read_pinned_file(out_, 4)) << "a directory";
  fs::create_symlink(out_ / "report", out_ / "link");
  EXPECT_FALSE(read_pinned_file(out_ / "link", 4));
  fs::create_directory_symlink(out_, home_ / "elsewhere");
  EXPECT_FALSE(read_pinned_file(fs::canonical(home_.path()) / "elsewhere" / "report", 4));
}

TEST_F(JobOutputTest, IsCommittedByTheAttemptThatItsOwnerFileNames) {
  fs::create_directories(out_ / kReportDirectory);
  const JobOutput output(out_, "j-1");
  EXPECT_FALSE(output.is_committed(2));
  write_output_owner(out_ / kReportDirectory, {"j-1", 2});
  EXPECT_TRUE(output.is_committed(2));
  EXPECT_FALSE(output.is_committed(3));
  EXPECT_FALSE(JobOutput(out_, "j-2").is_committed(2));
  put_file(out_ / kReportDirectory / kOwnerOfOutput, "{");
  EXPECT_FALSE(output.is_committed(2));
}

}  // namespace
}  // namespace dotresize
