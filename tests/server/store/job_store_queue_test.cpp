#include <memory>

#include "tests/server/store/store.h"

namespace dotresize {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

}  // namespace
}  // namespace dotresize
