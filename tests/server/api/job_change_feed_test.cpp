#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/api/job_query.h"
#include "server/common/api_error.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

using Change = v1::JobChange;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

/// Kind of the change, and the job's name.
using Told = std::pair<Change::Kind, std::string>;

std::vector<Told> told(const std::vector<Change>& changes) {
  std::vector<Told> result;
  for (const Change& change : changes) {
    result.emplace_back(change.kind(), change.job().spec().name());
  }
  return result;
}

class Feed : public ::testing::Test {
 protected:
  std::string create(const std::string& name, const std::string& team = "") {
    NewJob job;
    job.spec.set_name(name);
    job.spec.mutable_model()->set_path("/model");
    job.output = "/out/" + name;
    if (!team.empty()) (*job.options.mutable_labels())["team"] = team;
    return store_.create(job).id();
  }

  /// Creates jobs named "0", "1", ... and returns their IDs.
  std::vector<std::string> create_many(int count) {
    std::vector<std::string> ids;
    for (int i = 0; i < count; ++i) ids.push_back(create(std::to_string(i)));
    return ids;
  }

  /// Reads the first messages of a longer listing.
  static std::deque<Change> read_a_part(JobChangeFeed& feed) {
    std::deque<Change> messages;
    feed.read(messages);
    EXPECT_EQ(messages.size(), 65u);
    return messages;
  }

  void finish(const std::string& id) {
    store_.finish(id, {v1::Job::SUCCEEDED, std::nullopt, v1::JobResult()});
  }

  /// Makes more changes than RecentChanges keeps.
  void change_much(const std::string& id) {
    v1::Progress progress;
    progress.set_phase(std::string(RecentChanges::kMaxBytes / 4, 'x'));
    for (int i = 0; i < 5; ++i) store_.record_progress(id, 1, progress);
  }

  /// Reads everything available.
  static std::vector<Change> read(JobChangeFeed& feed) {
    std::vector<Change> all;
    for (;;) {
      std::deque<Change> messages;
      feed.read(messages);
      if (messages.empty()) return all;
      EXPECT_LE(messages.size(), 130u);
      all.insert(all.end(), messages.begin(), messages.end());
    }
  }

  JobChangeFeed feed(const v1::WatchJobsRequest& request = {}) {
    return JobChangeFeed(store_, request);
  }

  TemporaryDirectory home_;
  JobStore store_{home_.path() / "jobs.sqlite"};
};

TEST_F(Feed, ListsWhatThereIsAndThenTellsEachChangeWithoutSpecs) {
  const std::string a = create("a");
  create("b");
  JobChangeFeed all = feed();
  const std::vector<Change> listed = read(all);
  EXPECT_THAT(told(listed), ElementsAre(Pair(Change::LISTING, ""), Pair(Change::LISTED, "b"),
                                        Pair(Change::LISTED, "a"), Pair(Change::SYNCED, "")));
  EXPECT_FALSE(listed[1].job().spec().has_model());
  store_.begin_attempt(a, "");
  create("c");
  finish(a);
  store_.remove(a, [](const v1::Job&, const std::string&) {});
  const std::vector<Change> changes = read(all);
  EXPECT_THAT(told(changes), ElementsAre(Pair(Change::CHANGED, "a"), Pair(Change::CHANGED, "c"),
                                         Pair(Change::CHANGED, "a"), Pair(Change::DELETED, "a")));
  EXPECT_EQ(changes[0].job().state(), v1::Job::STARTING);
  EXPECT_FALSE(changes[1].job().spec().has_model());
  EXPECT_EQ(changes[3].job().state(), v1::Job::SUCCEEDED);
  EXPECT_THAT(read(all), IsEmpty());
}

TEST_F(Feed, WhatDoesNotMatchIsNotHeardOf) {
  v1::WatchJobsRequest request;
  (*request.mutable_filter()->mutable_labels())["team"] = "nlp";
  request.mutable_filter()->add_states(v1::Job::QUEUED);
  const std::string before = create("before", "nlp");
  JobChangeFeed queued = feed(request);
  EXPECT_THAT(told(read(queued)),
              ElementsAre(Pair(Change::LISTING, ""), Pair(Change::LISTED, "before"),
                          Pair(Change::SYNCED, "")));
  const std::string other = create("other", "vision");
  create("later", "nlp");
  for (const std::string& id : {before, other}) {
    store_.begin_attempt(id, "");
    finish(id);
    store_.remove(id, [](const v1::Job&, const std::string&) {});
  }
  EXPECT_THAT(told(read(queued)),
              ElementsAre(Pair(Change::CHANGED, "later"), Pair(Change::LEFT, "before")));
}

TEST_F(Feed, GoesOnAfterACursorWithoutAListing) {
  const std::string id = create("a");
  JobChangeFeed first = feed();
  v1::WatchJobsRequest request;
  request.set_cursor(read(first).back().cursor());
  store_.begin_attempt(id, "");
  finish(id);
  JobChangeFeed again = feed(request);
  const std::vector<Change> changes = read(again);
  ASSERT_THAT(told(changes), ElementsAre(Pair(Change::CHANGED, "a"), Pair(Change::CHANGED, "a")));
  request.set_cursor(changes[0].cursor());
  JobChangeFeed rest = feed(request);
  const std::vector<Change> last = read(rest);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].job().state(), v1::Job::SUCCEEDED);
}

TEST_F(Feed, CursorOfAnotherServerListsAndThatOfAnotherFilterIsRefused) {
  create("a");
  v1::WatchJobsRequest request;
  {
    JobStore earlier(home_.path() / "jobs.sqlite");
    JobChangeFeed first(earlier, {});
    request.set_cursor(read(first).back().cursor());
  }
  JobChangeFeed again = feed(request);
  EXPECT_THAT(told(read(again)), ElementsAre(Pair(Change::LISTING, ""), Pair(Change::LISTED, "a"),
                                             Pair(Change::SYNCED, "")));
  request.mutable_filter()->set_name("a");
  EXPECT_THROW(feed(request), ApiError);
  for (const char* bad : {"x", ".", "a.1", "a.-1.0", "a.0.zz"}) {
    request.set_cursor(bad);
    EXPECT_THROW(feed(request), ApiError) << bad;
  }
}

TEST_F(Feed, WhoFallsBehindGetsTheNewestStateOfEachJob) {
  const std::string slow = create("slow");
  const std::string gone = create("gone");
  JobChangeFeed feed_ = feed();
  const std::string cursor = read(feed_).back().cursor();
  store_.request_cancel(gone);
  store_.remove(gone, [](const v1::Job&, const std::string&) {});
  store_.begin_attempt(slow, "");
  change_much(slow);
  finish(slow);
  const std::vector<Change> changes = read(feed_);
  ASSERT_THAT(told(changes), ElementsAre(Pair(Change::LISTING, ""), Pair(Change::LISTED, "slow"),
                                         Pair(Change::SYNCED, "")));
  EXPECT_EQ(changes[1].job().state(), v1::Job::SUCCEEDED);
  EXPECT_FALSE(store_.recent().after(0, 1));
  v1::WatchJobsRequest request;
  request.set_cursor(cursor);
  JobChangeFeed late = feed(request);
  EXPECT_EQ(told(read(late)), told(changes));
}

TEST_F(Feed, ChangesDuringAListingAreToldOnceAndInTheirOrder) {
  const std::vector<std::string> ids = create_many(70);
  JobChangeFeed all = feed();
  read_a_part(all);
  for (const size_t unlisted : {0, 1}) store_.begin_attempt(ids[unlisted], "");
  store_.begin_attempt(ids[69], "");
  finish(ids[0]);
  create("new");
  const std::vector<Change> rest = read(all);
  const auto listed = [](const char* name) { return Pair(Change::LISTED, name); };
  EXPECT_THAT(told(rest), ElementsAre(Pair(Change::CHANGED, "69"), Pair(Change::CHANGED, "new"),
                                      listed("5"), listed("4"), listed("3"), listed("2"),
                                      listed("1"), listed("0"), Pair(Change::SYNCED, "")));
  EXPECT_EQ(rest[6].job().state(), v1::Job::STARTING);
  EXPECT_EQ(rest[7].job().state(), v1::Job::SUCCEEDED);
  EXPECT_FALSE(rest[0].has_cursor());
}

TEST_F(Feed, ListingThatIsOvertakenBeginsAgain) {
  const std::vector<std::string> ids = create_many(70);
  JobChangeFeed all = feed();
  const std::deque<Change> messages = read_a_part(all);
  ASSERT_GT(messages.size(), 2u);
  EXPECT_EQ(messages[2].job().id(), ids[68]);
  store_.request_cancel(ids[68]);
  store_.remove(ids[68], [](const v1::Job&, const std::string&) {});
  store_.begin_attempt(ids[69], "");
  change_much(ids[69]);
  const std::vector<Change> again = read(all);
  ASSERT_EQ(again.size(), 71u);
  EXPECT_EQ(again[0].kind(), Change::LISTING);
  EXPECT_FALSE(again[0].has_cursor());
  EXPECT_EQ(again[1].job().spec().name(), "69");
  EXPECT_EQ(again[1].job().state(), v1::Job::STARTING);
  EXPECT_EQ(again[2].job().id(), ids[67]) << "the one between is not told again";
  EXPECT_EQ(again.back().kind(), Change::SYNCED);
}

TEST_F(Feed, NoJobIsMissedOrGoesBackWhileOthersChangeIt) {
  constexpr int kJobs = 130;
  const std::vector<std::string> ids = create_many(kJobs);
  std::thread others([&] {
    for (const std::string& id : ids) {
      store_.begin_attempt(id, "");
      finish(id);
    }
  });
  std::map<std::string, std::vector<v1::Job::State>> seen;
  JobChangeFeed all = feed();
  const auto is_done = [&] {
    return seen.size() == kJobs && std::ranges::all_of(seen, [](const auto& job) {
             return job.second.back() == v1::Job::SUCCEEDED;
           });
  };
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!is_done() && std::chrono::steady_clock::now() < give_up) {
    std::deque<Change> messages;
    all.read(messages);
    for (const Change& change : messages) {
      if (change.has_job()) seen[change.job().id()].push_back(change.job().state());
    }
  }
  others.join();
  EXPECT_TRUE(is_done());
  const std::vector<v1::Job::State> path = {v1::Job::QUEUED, v1::Job::STARTING, v1::Job::SUCCEEDED};
  for (const auto& [id, states] : seen) {
    ASSERT_LE(states.size(), path.size()) << id;
    EXPECT_EQ(states, std::vector(path.end() - std::ssize(states), path.end())) << id;
  }
}

}  // namespace
}  // namespace dotresize
