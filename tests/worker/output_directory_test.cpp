#include "worker/commands/run/output/output_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/output_owner.h"
#include "base/files/partial_path.h"
#include "base/text/sha256.h"
#include "tests/temporary_directory.h"
#include "worker/checkpoint/verify.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
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
  EXPECT_FALSE(fs::exists(partial_path(out_)));
}

/// Somebody exchanges the unfinished directory for a link while a job clears it.
TEST_F(OutputDirectoryTest, AnExchangedUnfinishedDirectoryIsNotCleared) {
  const fs::path foreign = home_ / "foreign";
  fs::create_directories(foreign);
  put_file(foreign / "precious", "kept");
  UnfinishedDirectory unfinished(out_, "output.path", UnfinishedDirectory::Parent::kMake);
  unfinished.lock();
  put_file(unfinished.path() / "old", "");
  fs::rename(partial_path(out_), home_ / "aside");
  fs::create_symlink(foreign, partial_path(out_));
  EXPECT_FALSE(empty_directory(unfinished.path()));
  EXPECT_TRUE(fs::is_empty(home_ / "aside"));
  EXPECT_EQ(file_bytes(foreign / "precious"), "kept");
  EXPECT_THROW(unfinished.require_name(unfinished.partial_name()), std::runtime_error);
  UnfinishedDirectory next(out_, "output.path", UnfinishedDirectory::Parent::kMake);
  EXPECT_THROW(next.lock(), InputError);
}

/// A rank that fails because its files are gone can tell that the job was stopped.
TEST_F(OutputDirectoryTest, StoppingIsSeenByOtherRanksUntilTheNextJob) {
  {
    OutputDirectory rank_0(out_, false);
    fs::create_directory(rank_0.journal());
    put_file(rank_0.journal() / "map-0.json", "{}");
    OutputDirectory rank_1(out_);
    EXPECT_FALSE(rank_0.stopped());
    fs::permissions(rank_0.partial(), fs::perms::owner_all);
    rank_1.stop();
    EXPECT_TRUE(rank_0.stopped());
    EXPECT_TRUE(fs::exists(rank_0.journal()));
  }
  const OutputDirectory next(out_, false);
  EXPECT_FALSE(next.stopped());
  EXPECT_EQ(fs::status(next.partial()).permissions(), fs::perms::owner_all);
}

TEST_F(OutputDirectoryTest, StoppingIsSeenInADirectoryThatIsGone) {
  OutputDirectory rank_0(out_, false);
  OutputDirectory rank_1(out_);
  rank_1.stop();
  EXPECT_FALSE(fs::exists(partial_path(out_)));
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
  EXPECT_TRUE(fs::exists(partial_path(out_)));
  { const OutputDirectory of_another_rank(out_); }
  EXPECT_FALSE(fs::exists(partial_path(out_)));
}

TEST_F(OutputDirectoryTest, OneOfALaterJobIsNotRemoved) {
  OutputDirectory output(out_, false);
  const fs::path partial = partial_path(out_);
  fs::remove_all(partial);
  fs::create_directory(partial);
  output.discard();
  EXPECT_TRUE(fs::exists(partial));
}

TEST_F(OutputDirectoryTest, RefusesAnExistingOutput) {
  fs::create_directories(out_ / "precious");
  EXPECT_THAT([&] { OutputDirectory(out_, false); },
              ThrowsMessage<InputError>(HasSubstr("so it is not overwritten: remove it")));
}

TEST_F(OutputDirectoryTest, OverwriteReplacesTheOldModelAtCommitAlone) {
  fs::create_directories(out_ / kReportDirectory);
  put_file(out_ / kReportDirectory / kReportFile, "{}");
  put_file(out_ / "model", "old");
  OutputDirectory output(out_, true);
  put_file(output.partial() / "model", "new");
  EXPECT_EQ(file_bytes(out_ / "model"), "old");
  output.commit();
  EXPECT_EQ(file_bytes(out_ / "model"), "new");
  EXPECT_FALSE(fs::exists(partial_path(out_)));
}

TEST_F(OutputDirectoryTest, OverwriteReplacesNothingButModelsOfDotresize) {
  fs::create_directories(out_);
  put_file(out_ / "thesis", "only copy");
  EXPECT_THAT([&] { OutputDirectory(out_, true); },
              ThrowsMessage<InputError>(HasSubstr("not a model made by dotresize")));
  fs::remove_all(out_);
  OutputDirectory output(out_, true);
  fs::create_directories(out_);
  put_file(out_ / "thesis", "only copy");
  EXPECT_THROW(output.commit(), InputError) << "it has appeared since";
  EXPECT_EQ(file_bytes(out_ / "thesis"), "only copy");
}

TEST_F(OutputDirectoryTest, TakesNobodyElsesDirectoryForItsUnfinishedOutput) {
  fs::create_directories(partial_path(out_));
  put_file(partial_path(out_) / "thesis", "only copy");
  EXPECT_THAT([&] { OutputDirectory(out_, false); },
              ThrowsMessage<InputError>(HasSubstr("was not written by a dotresize job")));
  EXPECT_EQ(file_bytes(partial_path(out_) / "thesis"), "only copy");
}

std::vector<fs::path> names_in(const fs::path& dir) {
  std::vector<fs::path> names;
  for (const auto& entry : fs::directory_iterator(dir)) names.push_back(entry.path().filename());
  return names;
}

TEST_F(OutputDirectoryTest, StartsEmptyAfterACrash) {
  fs::create_directories(partial_path(out_) / kJournalDirectory);
  put_file(partial_path(out_) / "model", "torn");
  OutputDirectory output(out_, false);
  EXPECT_THAT(names_in(output.partial()), ElementsAre(kJournalDirectory));
}

TEST_F(OutputDirectoryTest, SaysFromTheBeginningToTheEndWhichAttemptMakesIt) {
  OutputDirectory output(out_, false, false, {{"j-1", 2, "ann"}, /*any=*/false});
  EXPECT_EQ(owner_of_partial(output.partial())->job_id, "j-1");
  fs::create_directory(output.partial() / kReportDirectory);
  output.close_journal();
  EXPECT_EQ(owner_of_partial(output.partial())->job_id, "j-1");
  output.commit();
  EXPECT_EQ(owner_of_output(out_)->job_id, "j-1");
  EXPECT_EQ(owner_of_output(out_)->attempt, 2);
  EXPECT_EQ(owner_of_output(out_)->name, "ann");
  EXPECT_FALSE(fs::exists(out_ / kJournalDirectory));
}

/// Makes a model of this owner; nullptr: of nobody.
void put_model(const fs::path& out, const char* owner) {
  fs::create_directories(out / kReportDirectory);
  put_file(out / kReportDirectory / kReportFile, "{}");
  if (owner != nullptr) write_output_owner(out / kReportDirectory, {"j-0", 1, owner});
}

TEST_F(OutputDirectoryTest, ReplacesTheModelsOfItsOwnerAlone) {
  const OutputRights of_ben = {{"j-1", 1, "ben"}, /*any=*/false};
  for (const char* owner : {"ann", "", static_cast<const char*>(nullptr)}) {
    fs::remove_all(out_);
    put_model(out_, owner);
    EXPECT_THROW(OutputDirectory(out_, true, false, of_ben), InputError);
    EXPECT_FALSE(fs::exists(partial_path(out_)));
    EXPECT_NO_THROW(OutputDirectory(out_, true, false, {{"j-1", 1, "root"}, /*any=*/true}));
  }
  fs::remove_all(out_);
  OutputDirectory output(out_, true, false, of_ben);
  put_model(out_, "ann");
  EXPECT_THAT([&] { output.commit(); }, ThrowsMessage<InputError>(HasSubstr("belongs to 'ann'")))
      << "it has appeared since";
  EXPECT_EQ(owner_of_output(out_)->name, "ann");
  fs::remove_all(out_);
  put_model(out_, "ben");
  output.commit();
  EXPECT_FALSE(owner_of_output(out_));
}

TEST_F(OutputDirectoryTest, ContinuesTheJournalsOfItsOwnerAlone) {
  const fs::path journal = partial_path(out_) / kJournalDirectory;
  fs::create_directories(journal);
  write_output_owner(journal, {"j-0", 1, "ann"});
  put_file(journal / "map-0.json", "{}");
  for (const bool fresh : {false, true}) {
    EXPECT_THAT(
        [&] {
          OutputDirectory(out_, false, fresh, {{"j-1", 1, "ben"}, /*any=*/false});
        },
        ThrowsMessage<InputError>(HasSubstr("belongs to 'ann'")));
    EXPECT_TRUE(fs::exists(journal / "map-0.json"));
  }
  EXPECT_EQ(read_output_owner(journal)->name, "ann");
  EXPECT_NO_THROW(OutputDirectory(out_, false, false, {{"j-2", 1, "ann"}, /*any=*/false}));
  EXPECT_NO_THROW(OutputDirectory(out_, false, false, {{"j-2", 2, ""}, /*any=*/false}))
      << "its own journal, of a version without owners";
}

/// Creates a journal with a map, like an interrupted job leaves it.
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
  output.close_journal();
  output.commit();
  EXPECT_TRUE(fs::is_empty(out_));
}

TEST_F(OutputDirectoryTest, AJournalThatWasBeingRemovedIsNoJournal) {
  const fs::path partial = partial_path(out_);
  fs::create_directories(partial / "journal.removed");
  put_file(partial / "journal.removed" / "map-0.json", "{}");  // journal.json is gone already
  fs::create_directory(partial / kReportDirectory);
  put_file(partial / kReportDirectory / kReportFile, "{}");
  OutputDirectory output(out_, false);
  EXPECT_THAT(names_in(output.partial()), ElementsAre(kJournalDirectory));
  EXPECT_FALSE(fs::exists(output.journal() / "map-0.json"));
  output.close_journal();
  output.commit();
  EXPECT_TRUE(fs::is_empty(out_));
}

TEST_F(OutputDirectoryTest, StartsAnewIfAsked) {
  put_journal(partial_path(out_));
  OutputDirectory output(out_, false, /*fresh=*/true);
  EXPECT_THAT(names_in(output.journal()), ElementsAre(kOwnerOfOutput));
}

TEST_F(OutputDirectoryTest, KeepsNoJournalWithoutEntries) {
  {
    OutputDirectory output(out_, false);
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

/// An attacker who may rename files beside the output puts a link in place of the unfinished one.
TEST_F(OutputDirectoryTest, NothingIsWrittenOrRemovedThroughALinkThatComesLater) {
  fs::create_directories(home_ / "victim");
  put_file(home_ / "victim" / "README.md", "kept");
  {
    OutputDirectory output(out_, false);
    fs::rename(partial_path(out_), home_ / "aside");
    fs::create_directory_symlink(home_ / "victim", partial_path(out_));
    write_file_atomically(output.partial() / "README.md", "card");
    EXPECT_EQ(file_bytes(home_ / "aside" / "README.md"), "card");
    EXPECT_THAT([&] { output.commit(); },
                ThrowsMessage<std::runtime_error>(HasSubstr("something else has replaced it")));
    EXPECT_FALSE(fs::exists(fs::symlink_status(out_)));
  }
  EXPECT_EQ(names_in(home_ / "victim").size(), 1U);
  EXPECT_EQ(file_bytes(home_ / "victim" / "README.md"), "kept");
}

/// Writes a complete output of the job with this identity.
void put_complete(const fs::path& dir, const std::string& identity) {
  const std::string report =
      R"({"schema_version": 1, "method": {"name": "m", "width": 8}, "wall_time_s": 1,
          "dense": {"parameters": 1, "bytes": 1}, "compressed": {"parameters": 1, "bytes": 1},
          "fingerprints": {"job": ")" +
      identity + "\"}}";
  fs::create_directories(dir / kReportDirectory);
  put_file(dir / kReportDirectory / kReportFile, report);
  put_file(dir / "model", identity);
  put_file(dir / kSumsFile, sha256_sums(dir));
}

TEST_F(OutputDirectoryTest, WhatCannotBeRenamedStaysCompleteAndTheNextRunHasNothingElseToDo) {
  {
    OutputDirectory output(out_, false);
    output.close_journal();
    put_complete(output.partial(), "this job");
    fs::create_directories(out_ / "foreign");  // meanwhile
    EXPECT_THAT([&] { output.commit(); },
                ThrowsMessage<InputError>(AllOf(
                    HasSubstr("so it is not overwritten: remove it"),
                    HasSubstr("the complete output stays in " + partial_path(out_).string()))));
    output.stop();  // as at a signal
  }
  EXPECT_TRUE(fs::exists(out_ / "foreign"));
  EXPECT_EQ(file_bytes(partial_path(out_) / "model"), "this job");
  fs::remove_all(out_);
  OutputDirectory next(out_, false, false, {}, "this job");
  ASSERT_TRUE(next.is_complete());
  next.commit();
  EXPECT_EQ(file_bytes(out_ / "model"), "this job");
  EXPECT_FALSE(fs::exists(partial_path(out_)));
}

TEST_F(OutputDirectoryTest, AnEmptyDirectoryThatAppearsIsNotReplaced) {
  OutputDirectory output(out_, false);
  fs::create_directory(out_);
  EXPECT_THAT([&] { output.commit(); },
              ThrowsMessage<InputError>(HasSubstr("exists and is empty")));
  EXPECT_TRUE(fs::is_empty(out_));
}

TEST_F(OutputDirectoryTest, TheCompleteOutputOfAnotherJobIsRemovedOnlyIfAsked) {
  put_complete(partial_path(out_), "another job");
  EXPECT_THAT([&] { OutputDirectory(out_, false, false, {}, "this job"); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("the complete output of another job"), HasSubstr("--fresh"))));
  EXPECT_EQ(file_bytes(partial_path(out_) / "model"), "another job");
  const OutputDirectory fresh(out_, false, /*fresh=*/true, {}, "this job");
  EXPECT_FALSE(fresh.is_complete());
  EXPECT_FALSE(fs::exists(fresh.partial() / "model"));
}

/// A run that was killed when it had swapped the new output with the old one.
TEST_F(OutputDirectoryTest, WhatAFinishedReplacementHasLeftIsNoJobsWork) {
  put_complete(out_, "this job");
  put_complete(partial_path(out_), "the job before");
  const OutputDirectory again(out_, /*overwrite=*/true, false, {}, "this job");
  EXPECT_FALSE(again.is_complete());
  EXPECT_FALSE(fs::exists(again.partial() / "model"));
}

TEST_F(OutputDirectoryTest, ACompleteOutputIsTakenOverByTheNextAttempt) {
  put_complete(partial_path(out_), "this job");
  OutputDirectory output(out_, false, false, {{"j-1", 2}}, "this job");
  output.commit();
  EXPECT_EQ(owner_of_output(out_)->attempt, 2);
  EXPECT_EQ(file_bytes(out_ / kSumsFile), sha256_sums(out_));
}

/// Makes renameat2 of this process fail as in file systems that lack it, for its lifetime.
struct NoExchange {
  static inline bool active = false;
  NoExchange() { active = true; }
  ~NoExchange() { active = false; }
};

TEST_F(OutputDirectoryTest, WithoutAnExchangeTheOldModelIsReplacedToo) {
  const NoExchange no_exchange;
  put_complete(out_, "the job before");
  OutputDirectory output(out_, true);
  put_file(output.partial() / "model", "new");
  output.commit();
  EXPECT_EQ(file_bytes(out_ / "model"), "new");
  EXPECT_THAT(names_in(out_.parent_path()), ElementsAre("out"));
}

TEST_F(OutputDirectoryTest, WithoutAnExchangeADirectoryInItsWayStays) {
  const NoExchange no_exchange;
  put_complete(out_, "the job before");
  fs::create_directories(replaced_path(out_));
  put_file(replaced_path(out_) / "thesis", "only copy");
  OutputDirectory output(out_, true, false, {}, "this job");
  output.close_journal();
  put_complete(output.partial(), "this job");
  EXPECT_THAT([&] { output.commit(); },
              ThrowsMessage<InputError>(HasSubstr("out.replaced is in the way")));
  EXPECT_EQ(file_bytes(replaced_path(out_) / "thesis"), "only copy");
  EXPECT_EQ(file_bytes(out_ / "model"), "the job before");
  EXPECT_EQ(file_bytes(partial_path(out_) / "model"), "this job");
}

TEST_F(OutputDirectoryTest, RefusesAnUnfinishedOutputOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  constexpr uid_t kNobody = 65534;
  put_journal(partial_path(out_));
  ASSERT_EQ(::chown(partial_path(out_).c_str(), kNobody, kNobody), 0);
  EXPECT_THAT([&] { OutputDirectory(out_, false); },
              ThrowsMessage<InputError>(HasSubstr("belongs to another user")));
  EXPECT_THROW(OutputDirectory{out_}, InputError);
  EXPECT_TRUE(fs::exists(partial_path(out_) / kJournalDirectory / "map-0.json"));
}

}  // namespace
}  // namespace dotresize

/// Takes the place of libc's function in this program.
extern "C" int renameat2(int from_dir, const char* from, int to_dir, const char* to,
                         unsigned int flags) noexcept {
  if (dotresize::NoExchange::active && flags != 0) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_renameat2, from_dir, from, to_dir, to, flags));
}
