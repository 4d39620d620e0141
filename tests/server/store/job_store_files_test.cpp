#include "base/errors.h"
#include "server/store/state_dir.h"
#include "tests/server/store/store.h"

namespace dotresize {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST_F(Store, RefusesATableOfAnotherVersion) {
  for (const char* const version : {"1", "99"}) {
    {
      SQLite::Database database((home_.path() / "other.sqlite").string(),
                                SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
      database.exec(std::string("PRAGMA user_version=") + version);
    }
    EXPECT_THAT(
        [&] { JobStore(home_.path() / "other.sqlite"); },
        ThrowsMessage<std::runtime_error>(HasSubstr(std::string("has schema version ") + version)));
  }
}

TEST_F(Store, RefusesATableThatHasLostAcknowledgedJobs) {
  const std::filesystem::path file = home_.path() / "other.sqlite";
  {
    JobStore store(file);
    store.create(new_job("a"));
    store.create(new_job("b"));
  }
  { const JobStore again(file); }
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file.string() + suffix);
  EXPECT_THAT([&] { JobStore store(file); },
              ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("job number 2 was acknowledged"),
                                                      HasSubstr("Restore a backup"))));
  std::filesystem::remove(file.string() + ".acknowledged");
  { const JobStore without(file); }
}

TEST_F(Store, IsBackedUpWithTheFilesOfItsJobsOrNotAtAll) {
  store_.create(new_job("a"));
  std::filesystem::create_directories(home_ / "jobs/j-1");
  home_.write("jobs/j-1/log", "text");
  const TemporaryDirectory elsewhere;
  EXPECT_EQ(back_up(home_.path(), elsewhere / "copy"), 1);
  EXPECT_EQ(file_bytes(elsewhere / "copy/jobs/j-1/log"), "text");
  for (const char* inside : {"copy", "jobs/copy"}) {
    EXPECT_THROW(back_up(home_.path(), home_ / inside), InputError);
    EXPECT_FALSE(std::filesystem::exists(home_ / inside));
  }
  std::filesystem::remove_all(home_ / "jobs");
  std::filesystem::create_symlink("jobs", home_ / "jobs");  // a folder that cannot be read
  EXPECT_THROW(back_up(home_.path(), elsewhere / "another"), std::filesystem::filesystem_error);
  std::filesystem::remove(home_ / "jobs");
  home_.write("jobs", "a file where the folder should be");
  EXPECT_THROW(back_up(home_.path(), elsewhere / "another"), std::filesystem::filesystem_error);
  std::filesystem::remove_all(elsewhere / "copy");
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere.path()))
      << "nothing is left of those that failed";
}

TEST_F(Store, CopyIsNotUsedBesideItsOriginal) {
  const TemporaryDirectory elsewhere;
  {
    const StateDir original(home_.path());
    back_up(home_.path(), elsewhere / "copy");
    EXPECT_THROW(StateDir(elsewhere / "copy"), StateDirInUse);
  }
  EXPECT_NO_THROW(StateDir(elsewhere / "copy"));
  const StateDir original(home_.path());
  EXPECT_NO_THROW(StateDir(elsewhere / "copy")) << "it is one of its own now";
}

class DamagedStore : public Store {
 protected:
  /// Runs a statement that makes data unreadable, like a failing disk.
  void damage(const std::string& statement) const {
    SQLite::Database database(file_.string(), SQLite::OPEN_READWRITE);
    database.exec(statement);
  }
  int count(const std::string& table) const {
    return SQLite::Database(file_.string()).execAndGet("SELECT count(*) FROM " + table).getInt();
  }
};

TEST_F(DamagedStore, OneBadRowHidesNoOther) {
  const std::string bad = store_.create(new_job("bad", "r")).id();
  const std::string good = store_.create(new_job("good")).id();
  damage("UPDATE jobs SET body = x'ff00' WHERE name = 'bad'");
  EXPECT_THAT(names(store_.list({})), ElementsAre("good", "bad"));
  const v1::Job job = store_.get(bad);
  EXPECT_EQ(job.state(), v1::Job::QUEUED);
  EXPECT_EQ(job.error().code(), kDamagedRecord);
  EXPECT_EQ(job.spec().output().path(), "/out/bad");
  ASSERT_EQ(head(), bad);
  store_.finish(bad, {v1::Job::FAILED, job.error(), std::nullopt});
  EXPECT_EQ(head(), good);
  EXPECT_EQ(count("quarantine"), 1) << "the bytes are kept";
  EXPECT_EQ(code_of([&] { store_.resume(bad, {}, [](const v1::Job&, const std::string&) {}); }),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(DamagedStore, BadRowOfALaunchedJobKeepsItsAttempt) {
  const std::string id = store_.create(new_job("bad")).id();
  store_.begin_attempt(id, "hash");
  damage("UPDATE jobs SET body = x'ff00'");
  ASSERT_EQ(store_.launched().size(), 1u);
  EXPECT_EQ(store_.launched()[0].attempt(), 1);
  EXPECT_TRUE(store_.is_wanted(id, 1));
  store_.confirm_running(id, 1);
  EXPECT_EQ(store_.get(id).state(), v1::Job::RUNNING);
  store_.finish(id, succeeded());
  EXPECT_FALSE(store_.get(id).has_error());
}

TEST_F(DamagedStore, BadRowsAreDeletedWithoutBeingRead) {
  const std::string id = store_.create(new_job("bad")).id();
  store_.request_cancel(id);
  damage("UPDATE jobs SET body = x'ff00'");
  damage("UPDATE events SET body = x'ff00'");
  EXPECT_EQ(store_.events_after(id, 0, 10).size(), 2u) << "their numbers are known";
  store_.remove(id, [](const v1::Job&, const std::string&) {});
  EXPECT_TRUE(store_.list({}).jobs.empty());
}

TEST_F(DamagedStore, FileThatIsNoTableIsRefusedByName) {
  home_.write("other.sqlite", std::string(8192, 'x'));
  try {
    JobStore store(home_ / "other.sqlite");
    FAIL() << "it was opened";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("other.sqlite"));
  }
}

TEST_F(DamagedStore, AnIndexThatLacksARowIsRefused) {
  const std::filesystem::path file = home_.path() / "other.sqlite";
  {
    JobStore store(file);
    store.create(new_job("a"));
  }
  // The index covers no row but claims to cover all.
  SQLite::Database(file.string(), SQLite::OPEN_READWRITE)
      .exec(
          "CREATE INDEX short ON jobs(name) WHERE number < 0; PRAGMA writable_schema = ON; "
          "UPDATE sqlite_schema SET sql = 'CREATE INDEX short ON jobs(name)' "
          "WHERE name = 'short'");
  EXPECT_THAT([&] { JobStore store(file); },
              ThrowsMessage<std::runtime_error>(HasSubstr("missing from index short")));
}

}  // namespace
}  // namespace dotresize
