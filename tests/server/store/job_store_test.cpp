#include "server/store/job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>

#include "base/errors.h"
#include "server/common/api_error.h"
#include "server/store/state_dir.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

NewJob new_job(const std::string& name, const std::string& request_id = "") {
  NewJob job;
  job.spec.set_name(name);
  job.spec.mutable_output()->set_path("/out/" + name);
  job.request_id = request_id;
  job.output = "/out/" + name;
  for (const char* suffix : {"", ".partial", ".replaced"}) {
    job.claims.push_back({"output.path", job.output + suffix, true});
  }
  return job;
}

std::vector<v1::Job::State> states(const std::vector<v1::Event>& events) {
  std::vector<v1::Job::State> result;
  for (const v1::Event& event : events) result.push_back(event.state_change().state());
  return result;
}

std::vector<std::string> names(const JobPage& page) {
  std::vector<std::string> result;
  for (const v1::Job& job : page.jobs) result.push_back(job.spec().name());
  return result;
}

grpc::StatusCode code_of(const std::function<void()>& call) {
  try {
    call();
    return grpc::StatusCode::OK;
  } catch (const ApiError& error) {
    return error.code;
  }
}

class Store : public ::testing::Test {
 protected:
  /// Returns the ID of the job that starts next; empty if the queue is empty.
  std::string head() {
    const std::vector<QueuedJob> queued = store_.queued(1);
    return queued.empty() ? "" : queued[0].id;
  }
  /// Opens the table as a server does whose clock is ahead by so much.
  JobStore later(std::chrono::minutes ahead) const {
    return JobStore(file_, JobStore::kMaxQueuedJobs, TableClock::Wall::now() + ahead);
  }
  Outcome succeeded() const { return {v1::Job::SUCCEEDED, std::nullopt, v1::JobResult()}; }

  TemporaryDirectory home_;
  std::filesystem::path file_ = home_.path() / "jobs.sqlite";
  JobStore store_{file_};
};

TEST_F(Store, OneOwnerDoesNotFillTheQueueOfOthers) {
  const auto create = [store = std::make_shared<JobStore>(file_, /*max_queued=*/2)](
                          const char* owner, const char* name) {
    NewJob job = new_job(name);
    job.owner = owner;
    return store->create(job).id();
  };
  create("ann", "a");
  const std::string second = create("ann", "b");
  try {
    create("ann", "c");
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.code, grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(error.reason, "QUEUE_FULL");
    EXPECT_THAT(error.what(), HasSubstr("2 jobs of 'ann' are already waiting"));
  }
  create("ben", "of-ben");
  for (const char* name : {"d", "e", "f"}) create("", name);
  store_.request_cancel(second);
  create("ann", "c");
}

TEST_F(Store, RequestIdIsOfItsOwner) {
  NewJob job = new_job("a", "nightly");
  job.owner = "ann";
  const std::string of_ann = store_.create(job).id();
  job = new_job("b", "nightly");
  job.owner = "ben";
  EXPECT_FALSE(store_.find_request("nightly", job.spec, "ben"));
  const std::string of_ben = store_.create(job).id();
  EXPECT_NE(of_ben, of_ann);
  EXPECT_EQ(store_.create(job).id(), of_ben);
  EXPECT_EQ(store_.find_request("nightly", new_job("a").spec, "ann")->id(), of_ann);
  EXPECT_EQ(store_.create(new_job("c", "nightly")).request_id(), "nightly") << "without an owner";
}

TEST_F(Store, KeepsJobsEventsAndAttemptsOverARestart) {
  const v1::Job job = store_.create(new_job("a", "r1"));
  store_.begin_attempt(job.id(), "hash");
  JobStore again(file_);
  EXPECT_EQ(again.get(job.id()).state(), v1::Job::STARTING);
  EXPECT_EQ(again.token_sha256(job.id(), 1), "hash");
  EXPECT_THAT(states(again.events_after(job.id(), 0, 10)),
              ElementsAre(v1::Job::QUEUED, v1::Job::STARTING));
  EXPECT_EQ(again.find_request("r1", new_job("a").spec)->id(), job.id());
}

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

TEST_F(Store, OneRequestIdGivesOneJobAlsoToConcurrentCallers) {
  std::set<std::string> ids;
  std::mutex mutex;
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      const std::string id = store_.create(new_job("a", "same")).id();
      const std::lock_guard lock(mutex);
      ids.insert(id);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_EQ(store_.list({}).jobs.size(), 1u);
}

TEST_F(Store, AnotherSpecUnderAUsedRequestIdIsRefused) {
  store_.create(new_job("a", "same"));
  EXPECT_EQ(code_of([&] { store_.create(new_job("b", "same")); }),
            grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(Store, TwoUnfinishedJobsNeverShareAnOutput) {
  const v1::Job first = store_.create(new_job("a"));
  EXPECT_EQ(code_of([&] { store_.create(new_job("a")); }), grpc::StatusCode::FAILED_PRECONDITION);
  store_.request_cancel(first.id());
  EXPECT_NO_THROW(store_.create(new_job("a")));
}

TEST_F(Store, JobThatNamesTooManyPathsIsRefusedBeforeAnyIsWritten) {
  const auto code_with = [&](int count, size_t length) {
    NewJob job = new_job("x");
    for (int i = 0; i < count; ++i) {
      const std::string name = "/" + std::to_string(i);
      job.claims.push_back({"calibration.text", "/" + std::string(length, 'd') + name, false});
    }
    return code_of([&] { store_.request_cancel(store_.create(job).id()); });
  };
  EXPECT_EQ(code_with(9000, 3600), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(code_with(30'000, 1), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(store_.list({}).jobs.size(), 0);
  EXPECT_EQ(code_with(9000, 100), grpc::StatusCode::OK);
}

TEST_F(Store, NoPathOfAnUnfinishedJobIsTouchedByAnother) {
  NewJob job = new_job("x");
  job.claims.push_back({"model.path", "/models/m", false});
  const std::string id = store_.create(job).id();
  const auto code = [&](const PathClaim& claim) {
    NewJob other = new_job("other");
    other.claims = {claim};
    return code_of([&] { store_.request_cancel(store_.create(other).id()); });
  };
  const PathClaim clashes[] = {{"output.path", "/out/x/b", true},
                               {"output.path", "/out", true},
                               {"output.path", "/out/x.partial/b", true},
                               {"output.path", "/models/m", true},
                               {"output.path", "/models/m/b", true},
                               {"output.path", "/models", true},
                               {"model.path", "/out/x", false},
                               {"model.path", "/out/x/b", false},
                               {"calibration.text", "/out/x.partial/text", false}};
  for (const PathClaim& claim : clashes) {
    EXPECT_EQ(code(claim), grpc::StatusCode::FAILED_PRECONDITION) << claim.path;
  }
  const PathClaim neighbours[] = {{"output.path", "/out/xy", true},
                                  {"output.path", "/out/x-b", true},
                                  {"output.path", "/models/m2", true},
                                  {"model.path", "/models/m", false},
                                  {"model.path", "/models", false}};
  for (const PathClaim& claim : neighbours) {
    EXPECT_EQ(code(claim), grpc::StatusCode::OK) << claim.path;
  }
  store_.request_cancel(id);
  EXPECT_EQ(code(clashes[0]), grpc::StatusCode::OK) << "it has ended";
}

TEST_F(Store, QueueHasHigherPrioritiesFirst) {
  const auto create = [this](const std::string& name, int priority) {
    NewJob job = new_job(name);
    job.options.set_priority(priority);
    return store_.create(job).id();
  };
  const std::string low = create("low", -1);
  const std::string first = create("first", 0);
  const std::string second = create("second", 0);
  const std::string high = create("high", 5);
  std::vector<std::string> order;
  for (const QueuedJob& job : store_.queued(10)) order.push_back(job.id);
  EXPECT_THAT(order, ElementsAre(high, first, second, low));
  EXPECT_THAT(store_.queue(3), ElementsAre(high, first, second));
  EXPECT_EQ(store_.queue_position(high), 1);
  EXPECT_EQ(store_.queue_position(low), 4);
  store_.begin_attempt(first, "hash");
  EXPECT_EQ(store_.queue_position(second), 2);
}

TEST_F(Store, JobsThatRunHereHideNoneThatRunElsewhere) {
  const auto create = [this](const std::string& name, const std::string& launcher,
                             int priority = 0) {
    NewJob job = new_job(name);
    job.launcher = launcher;
    job.options.set_priority(priority);
    return store_.create(job).id();
  };
  const auto order = [this](int limit) {
    std::vector<std::string> ids;
    for (const QueuedJob& job : store_.queued(limit)) ids.push_back(job.id);
    return ids;
  };
  const std::string here = create("here", kLocalLauncher);
  const std::string second_here = create("second_here", kLocalLauncher);
  const std::string elsewhere = create("elsewhere", "slurm");
  EXPECT_THAT(order(1), ElementsAre(here, elsewhere));
  const std::string urgent = create("urgent", "external", 5);
  EXPECT_THAT(order(1), ElementsAre(urgent, here));
  EXPECT_THAT(order(2), ElementsAre(urgent, here, second_here, elsewhere));
}

TEST_F(Store, EndedJobsExpireUnlessTheyAreQueuedAgain) {
  NewJob job = new_job("a");
  job.options.set_ttl_seconds_after_finished(0);
  const std::string id = store_.create(job).id();
  EXPECT_THAT(store_.expired(10), IsEmpty());
  store_.request_cancel(id);
  EXPECT_THAT(store_.expired(10), ElementsAre(id));
  store_.resume(id, job.claims, [](const v1::Job&, const std::string&) {});
  EXPECT_THAT(store_.expired(10), IsEmpty());
  job = new_job("b");
  job.options.set_ttl_seconds_after_finished(3600);
  store_.request_cancel(store_.create(job).id());
  EXPECT_THAT(store_.expired(10), IsEmpty());
}

TEST_F(Store, AnEndIsToBeToldUntilItIsAndTheJobStaysForSoLong) {
  NewJob job = new_job("a");
  job.options.set_ttl_seconds_after_finished(0);
  job.options.mutable_notify()->set_webhook("https://ci.example.com/");
  const std::string id = store_.create(job).id();
  EXPECT_THAT(store_.due_notifications(10), IsEmpty());
  store_.request_cancel(id);
  EXPECT_THAT(store_.due_notifications(10), ElementsAre(id));
  EXPECT_THAT(store_.expired(10), IsEmpty());
  v1::Notification told = store_.get(id).notification();
  EXPECT_EQ(told.state(), v1::Notification::PENDING);

  store_.put_off_notification(id, std::chrono::hours(1));
  EXPECT_THAT(store_.due_notifications(10), IsEmpty());
  EXPECT_THAT(later(std::chrono::hours(2)).due_notifications(10), ElementsAre(id));

  v1::Notification of_another_end = told;
  of_another_end.set_id("j.0");
  of_another_end.set_state(v1::Notification::DELIVERED);
  store_.record_notification(id, of_another_end);
  EXPECT_THAT(later(std::chrono::hours(2)).due_notifications(10), ElementsAre(id));
  told.set_state(v1::Notification::DELIVERED);
  store_.record_notification(id, told);
  EXPECT_THAT(store_.due_notifications(10), IsEmpty());
  EXPECT_THAT(store_.expired(10), ElementsAre(id));

  store_.resume(id, job.claims, [](const v1::Job&, const std::string&) {});
  EXPECT_FALSE(store_.get(id).has_notification());
}

TEST_F(Store, KeepsThePlanOfAJob) {
  NewJob job = new_job("a");
  job.plan = "rank 0\n";
  EXPECT_EQ(store_.plan_of(store_.create(job).id()), "rank 0\n");
  EXPECT_EQ(store_.plan_of("j-none"), "");
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

class Lists : public Store {
 protected:
  /// Returns SQLite's plan for the query.
  std::string plan_of(const JobQuery& query) const {
    SQLite::Database database(file_.string());
    SQLite::Statement plan(database, "EXPLAIN QUERY PLAN " + list_sql(query));
    std::string steps;
    while (plan.executeStep()) steps += plan.getColumn(3).getString() + "\n";
    return steps;
  }

  /// Expects that the query finds jobs and that an index gives them in order.
  void expect_direct(const JobQuery& query) {
    EXPECT_FALSE(store_.list(query).jobs.empty()) << list_sql(query);
    const std::string steps = plan_of(query);
    EXPECT_THAT(steps, ::testing::Not(::testing::HasSubstr("TEMP B-TREE"))) << list_sql(query);
    if (!query.name.empty() || !query.owner.empty() || !query.states.empty()) {
      EXPECT_THAT(steps, ::testing::Not(::testing::HasSubstr("SCAN "))) << list_sql(query);
    }
  }
};

TEST_F(Lists, OfAnyFilterSortAndScanNothing) {
  for (const char* name : {"a", "b"}) {
    NewJob job = new_job(name);
    job.owner = "ada";
    (*job.options.mutable_labels())["team"] = "nlp";
    (*job.options.mutable_labels())["round"] = "1";
    store_.create(job);
  }
  for (const bool by_name : {false, true}) {
    for (const std::vector<v1::Job::State>& states :
         {std::vector<v1::Job::State>{}, {v1::Job::QUEUED}, {v1::Job::QUEUED, v1::Job::FAILED}}) {
      JobQuery query;
      query.states = states;
      if (by_name) query.name = "a";
      expect_direct(query);
      query.owner = "ada";
      expect_direct(query);
      query.labels = {{"round", "1"}, {"team", "nlp"}};
      expect_direct(query);
    }
  }
}

TEST_F(Lists, LookAtNoJobsOfOtherStatesOrIds) {
  const std::string id = store_.create(new_job("a")).id();
  JobQuery query;
  query.states = {v1::Job::QUEUED, v1::Job::FAILED};
  query.name = "a";
  EXPECT_THAT(plan_of(query), ::testing::HasSubstr("name=? AND state=?"));
  query.name = "";
  query.owner = "ada";
  EXPECT_THAT(plan_of(query), ::testing::HasSubstr("owner=? AND state=?"));
  for (const bool of_states : {false, true}) {
    JobQuery one;
    one.id_prefix = id.substr(0, 6);
    if (of_states) one.states = query.states;
    EXPECT_THAT(plan_of(one), ::testing::HasSubstr("id>? AND id<?"));
    EXPECT_THAT(names(store_.list(one)), ElementsAre("a"));
    store_.create(new_job("b" + std::to_string(of_states)));
  }
}

TEST_F(Store, EndsAJobOnce) {
  const std::string id = store_.create(new_job("a")).id();
  store_.begin_attempt(id, "hash");
  store_.finish(id, succeeded());
  EXPECT_THROW(store_.finish(id, succeeded()), std::logic_error);
  EXPECT_FALSE(store_.begin_attempt(id, "hash"));
  EXPECT_EQ(store_.request_cancel(id).state(), v1::Job::SUCCEEDED);
}

TEST_F(Store, CancelsAQueuedJobAtOnceAndMarksALaunchedOne) {
  const std::string queued = store_.create(new_job("a")).id();
  EXPECT_EQ(store_.request_cancel(queued).state(), v1::Job::CANCELLED);
  const std::string launched = store_.create(new_job("b")).id();
  store_.begin_attempt(launched, "hash");
  const v1::Job job = store_.request_cancel(launched);
  EXPECT_EQ(job.state(), v1::Job::STARTING);
  EXPECT_TRUE(job.cancelling());
  EXPECT_FALSE(store_.is_wanted(launched, 1)) << "the ranks are told to stop";
  EXPECT_FALSE(store_.begin_attempt(launched, "hash")) << "no restart of a cancelled job";
}

TEST_F(Store, CancelOfAQueuedJobAndItsStepAreOneTransaction) {
  const std::string id = store_.create(new_job("a")).id();
  const auto fail = [](const v1::Job&, const std::string&) { throw std::runtime_error("killed"); };
  EXPECT_THROW(store_.request_cancel(id, nullptr, fail), std::runtime_error);
  EXPECT_EQ(store_.get(id).state(), v1::Job::QUEUED);
  std::string output;
  store_.request_cancel(id, nullptr, [&](const v1::Job&, const std::string& of) { output = of; });
  EXPECT_EQ(output, "/out/a");
}

TEST_F(Store, OnlyTheLatestAttemptOwnsTheJob) {
  const std::string id = store_.create(new_job("a")).id();
  store_.begin_attempt(id, "one");
  EXPECT_TRUE(store_.is_wanted(id, 1));
  store_.begin_attempt(id, "two");
  EXPECT_FALSE(store_.is_wanted(id, 1));
  store_.confirm_running(id, 1);
  EXPECT_EQ(store_.get(id).state(), v1::Job::STARTING);
  EXPECT_TRUE(store_.is_wanted(id, 2));
  v1::Progress progress;
  progress.set_phase("solve");
  store_.record_progress(id, 1, progress);
  EXPECT_FALSE(store_.get(id).has_progress());
}

TEST_F(Store, KeepsTheFirstFailureThatAnAttemptReports) {
  const std::string id = store_.create(new_job("a")).id();
  store_.begin_attempt(id, "hash");
  EXPECT_FALSE(store_.reported_failure(id, 1));
  v1::JobError error;
  error.set_message("first");
  store_.record_failure(id, 1, error);
  error.set_message("second");
  store_.record_failure(id, 1, error);
  EXPECT_EQ(store_.reported_failure(id, 1)->message(), "first");
}

TEST_F(Store, PagesStayTheSameWhileJobsAreAdded) {
  for (const char* name : {"a", "b", "c", "d", "e"}) store_.create(new_job(name));
  JobQuery query;
  query.limit = 2;
  const JobPage first = store_.list(query);
  EXPECT_THAT(names(first), ElementsAre("e", "d"));
  store_.create(new_job("f"));
  query.before = first.next_before;
  const JobPage second = store_.list(query);
  EXPECT_THAT(names(second), ElementsAre("c", "b"));
  query.before = second.next_before;
  const JobPage third = store_.list(query);
  EXPECT_THAT(names(third), ElementsAre("a"));
  EXPECT_EQ(third.next_before, 0);
}

TEST_F(Store, ListsByStateAndName) {
  store_.create(new_job("a"));
  store_.request_cancel(store_.create(new_job("b")).id());
  JobQuery query;
  query.states = {v1::Job::CANCELLED};
  EXPECT_THAT(names(store_.list(query)), ElementsAre("b"));
  query.name = "a";
  EXPECT_THAT(names(store_.list(query)), IsEmpty());
}

TEST_F(Store, QueueIsFirstInFirstOut) {
  const std::string first = store_.create(new_job("a")).id();
  const std::string second = store_.create(new_job("b")).id();
  EXPECT_EQ(head(), first);
  store_.begin_attempt(first, "hash");
  EXPECT_EQ(head(), second);
  ASSERT_EQ(store_.launched().size(), 1u);
}

TEST_F(Store, JobThatIsPutBackWaitsForItsTimeAndHoldsUpNoOther) {
  const std::string first = store_.create(new_job("a")).id();
  store_.begin_attempt(first, "hash");
  ASSERT_TRUE(store_.requeue(first, "lost", std::chrono::hours(1)));
  EXPECT_EQ(store_.get(first).state(), v1::Job::QUEUED);
  EXPECT_TRUE(store_.get(first).has_retry_time());
  EXPECT_EQ(head(), "");
  const std::string second = store_.create(new_job("b")).id();
  EXPECT_EQ(head(), second);
  EXPECT_FALSE(store_.begin_attempt(first, "hash")->has_retry_time());
  ASSERT_TRUE(store_.requeue(first, "lost", std::chrono::seconds(0)));
  EXPECT_EQ(head(), first) << "it is the older one";
  store_.begin_attempt(second, "hash");
  store_.request_cancel(second);
  EXPECT_FALSE(store_.requeue(second, "lost", std::chrono::seconds(0)));
}

TEST_F(Store, AClockThatIsSetNeitherEndsNorProlongsAWait) {
  const std::string retried = store_.create(new_job("a")).id();
  store_.begin_attempt(retried, "hash");
  ASSERT_TRUE(store_.requeue(retried, "lost", std::chrono::hours(1)));
  NewJob job = new_job("b");
  job.options.set_ttl_seconds_after_finished(3600);
  const std::string kept = store_.create(job).id();
  store_.request_cancel(kept);
  job = new_job("c");
  job.options.mutable_notify()->set_webhook("https://ci.example.com/");
  const std::string told = store_.create(job).id();
  store_.request_cancel(told);
  store_.put_off_notification(told, std::chrono::hours(1));
  const auto waiting = [](JobStore& store) {
    return store.queued(10).empty() && store.expired(10).empty() &&
           store.due_notifications(10).empty();
  };
  for (const std::chrono::hours jump : {std::chrono::hours(48), std::chrono::hours(-72)}) {
    const auto retry = store_.get(retried).retry_time();
    store_.shift_waits(jump);
    EXPECT_TRUE(waiting(store_)) << jump.count();
    EXPECT_EQ(store_.get(retried).retry_time().seconds(), retry.seconds() + jump.count() * 3600);
  }
  // The next server begins with the clock as it was set: 24 hours back.
  JobStore before = later(std::chrono::minutes(-24 * 60 + 50));
  EXPECT_TRUE(waiting(before));
  JobStore after = later(std::chrono::minutes(-24 * 60 + 70));
  EXPECT_EQ(after.queued(10).at(0).id, retried);
  EXPECT_THAT(after.expired(10), ElementsAre(kept));
  EXPECT_THAT(after.due_notifications(10), ElementsAre(told));
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

TEST_F(Store, KeepsWhyAnAttemptIsStoppedUntilItHasEnded) {
  const std::string id = store_.create(new_job("a")).id();
  store_.begin_attempt(id, "hash");
  v1::JobError reason;
  reason.set_message("no heartbeat");
  store_.request_stop(id, 2, reason);
  EXPECT_TRUE(store_.is_wanted(id, 1)) << "it is not that attempt";
  store_.request_stop(id, 1, reason);
  reason.set_message("the deadline has passed");
  store_.request_stop(id, 1, reason);
  store_.confirm_running(id, 1);
  JobStore again(file_);
  EXPECT_EQ(again.get(id).stop_reason().message(), "no heartbeat");
  EXPECT_FALSE(again.is_wanted(id, 1)) << "the ranks are told to stop";
  ASSERT_TRUE(store_.requeue(id, "no heartbeat", std::chrono::seconds(0)));
  EXPECT_FALSE(store_.get(id).has_stop_reason());
}

TEST_F(Store, CountsTheAttemptsThatCouldNotBeStarted) {
  const std::string id = store_.create(new_job("a")).id();
  for (const bool started : {true, false, false}) {
    store_.begin_attempt(id, "hash");
    ASSERT_TRUE(store_.requeue(id, "no mpirun", std::chrono::seconds(0), started));
  }
  EXPECT_EQ(store_.get(id).attempt(), 3);
  EXPECT_EQ(store_.get(id).unstarted_attempts(), 2);
}

TEST_F(Store, ForgetsEndedJobsAlone) {
  const std::string id = store_.create(new_job("a", "r")).id();
  const auto nothing = [](const v1::Job&, const std::string&) {};
  EXPECT_EQ(code_of([&] { store_.remove(id, nothing); }), grpc::StatusCode::FAILED_PRECONDITION);
  store_.request_cancel(id);
  store_.remove(id, nothing);
  EXPECT_EQ(code_of([&] { store_.get(id); }), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(code_of([&] { store_.events_after(id, 0, 1); }), grpc::StatusCode::NOT_FOUND);
  EXPECT_FALSE(store_.find_request("r", new_job("a").spec));
}

TEST_F(Store, QueuesFailedAndCancelledJobsAgain) {
  const auto nothing = [](const v1::Job&, const std::string&) {};
  const std::vector<PathClaim> claims = new_job("a").claims;
  const std::string id = store_.create(new_job("a")).id();
  EXPECT_EQ(code_of([&] { store_.resume(id, claims, nothing); }),
            grpc::StatusCode::FAILED_PRECONDITION);
  store_.begin_attempt(id, "hash");
  v1::JobError error;
  error.set_message("the disk is full");
  store_.finish(id, {v1::Job::FAILED, error, std::nullopt});

  const v1::Job queued = store_.resume(id, claims, nothing);
  EXPECT_EQ(queued.state(), v1::Job::QUEUED);
  EXPECT_FALSE(queued.has_error());
  EXPECT_FALSE(queued.has_end_time());
  EXPECT_EQ(head(), id);
  EXPECT_EQ(store_.begin_attempt(id, "hash")->attempt(), 2);
  store_.finish(id, {v1::Job::SUCCEEDED, std::nullopt, v1::JobResult()});
  EXPECT_EQ(code_of([&] { store_.resume(id, claims, nothing); }),
            grpc::StatusCode::FAILED_PRECONDITION);
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

TEST_F(Store, TellsOfChangesAfterTheyAreCommitted) {
  const uint64_t before = store_.changes().version();
  const std::string id = store_.create(new_job("a")).id();
  EXPECT_NE(store_.changes().version(), before);
  EXPECT_EQ(JobStore(file_).get(id).state(), v1::Job::QUEUED);
}

}  // namespace
}  // namespace dotresize
