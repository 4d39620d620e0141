#include <set>
#include <thread>

#include "tests/server/store/store.h"

namespace dotresize {
namespace {

using ::testing::ElementsAre;

std::vector<v1::Job::State> states(const std::vector<v1::Event>& events) {
  std::vector<v1::Job::State> result;
  for (const v1::Event& event : events) result.push_back(event.state_change().state());
  return result;
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

TEST_F(Store, KeepsThePlanOfAJob) {
  NewJob job = new_job("a");
  job.plan = "rank 0\n";
  EXPECT_EQ(store_.plan_of(store_.create(job).id()), "rank 0\n");
  EXPECT_EQ(store_.plan_of("j-none"), "");
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

TEST_F(Store, TellsOfChangesAfterTheyAreCommitted) {
  const uint64_t before = store_.changes().version();
  const std::string id = store_.create(new_job("a")).id();
  EXPECT_NE(store_.changes().version(), before);
  EXPECT_EQ(JobStore(file_).get(id).state(), v1::Job::QUEUED);
}

}  // namespace
}  // namespace dotresize
