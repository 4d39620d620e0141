#include <gtest/gtest.h>

#include <atomic>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/calls/follow.h"
#include "client/calls/rpc_error.h"
#include "client/display/job_view.h"
#include "tests/client/fake_jobs.h"

namespace dotresize {
namespace {

using std::chrono::milliseconds;

struct Recorder : WatchObserver {
  Recorder() {
    connected = [this](const v1::Job&) { ++connections; };
    event = [this](const v1::Event& each) { seqs.push_back(each.seq()); };
    disconnected = [this] { ++disconnections; };
    tick = [this] { ++ticks; };
  }

  std::vector<int64_t> seqs;
  int connections = 0;
  int disconnections = 0;
  std::atomic<int> ticks = 0;
};

FollowOptions quick() {
  return {.first_pause = milliseconds(5),
          .max_pause = milliseconds(50),
          .patience = milliseconds(20'000),
          .tick = milliseconds(5),
          .stream_deadline = std::chrono::seconds(20)};
}

bool never() { return false; }

/// A job with five events; the last one says how it ended.
class StoredJob {
 public:
  FakeAnswers answers() {
    return {.get =
                [this](v1::Job& job) {
                  job.set_id("j1");
                  job.set_state(ended_ ? v1::Job::SUCCEEDED : v1::Job::RUNNING);
                  return grpc::Status::OK;
                },
            .watch =
                [this](const v1::WatchJobRequest& request, grpc::ServerWriter<v1::Event>& writer) {
                  asked_after.push_back(request.after_seq());
                  for (int64_t seq = request.after_seq() + 1; seq <= 5; ++seq) {
                    if (seq == 3 && asked_after.size() == 1) return interruption;
                    ended_ = seq == 5;
                    writer.Write(ended_ ? state_event(5, v1::Job::SUCCEEDED)
                                        : progress_event(seq, 0.2 * static_cast<double>(seq)));
                  }
                  return grpc::Status::OK;
                }};
  }

  grpc::Status interruption = grpc::Status::OK;
  std::vector<int64_t> asked_after;

 private:
  std::atomic<bool> ended_ = false;
};

class WatchInterruption : public testing::TestWithParam<grpc::StatusCode> {};

TEST_P(WatchInterruption, ResumesAfterTheLastEventSeen) {
  StoredJob stored;
  stored.interruption = grpc::Status(GetParam(), "");
  FakeServer server(stored.answers());
  Connection connection(server.address());
  Recorder recorder;
  const auto job = watch_job(connection, "j1", recorder, never, quick());
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(recorder.seqs, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(stored.asked_after, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(recorder.connections, 2);
}

INSTANTIATE_TEST_SUITE_P(Codes, WatchInterruption,
                         testing::Values(grpc::OK, grpc::UNAVAILABLE, grpc::DEADLINE_EXCEEDED,
                                         grpc::CANCELLED, grpc::INTERNAL));

TEST(Watch, SurvivesARestartOfTheServer) {
  std::atomic<bool> second_half = false;
  const auto answers = [&second_half] {
    return FakeAnswers{.get =
                           [&second_half](v1::Job& job) {
                             job.set_state(second_half ? v1::Job::SUCCEEDED : v1::Job::RUNNING);
                             return grpc::Status::OK;
                           },
                       .watch =
                           [&second_half](const v1::WatchJobRequest& request,
                                          grpc::ServerWriter<v1::Event>& writer) {
                             if (second_half) {
                               EXPECT_EQ(request.after_seq(), 1);
                               writer.Write(state_event(2, v1::Job::SUCCEEDED));
                               return grpc::Status::OK;
                             }
                             writer.Write(state_event(1, v1::Job::RUNNING));
                             while (!second_half) std::this_thread::sleep_for(milliseconds(1));
                             return grpc::Status(grpc::UNAVAILABLE, "going down");
                           }};
  };
  auto server = std::make_unique<FakeServer>(answers());
  const int port = server->port();
  Connection connection(server->address());
  Recorder recorder;
  std::thread restart([&] {
    while (recorder.ticks < 3) std::this_thread::sleep_for(milliseconds(1));
    second_half = true;
    server.reset();
    std::this_thread::sleep_for(milliseconds(300));
    server = std::make_unique<FakeServer>(answers(), port);
  });
  const auto job = watch_job(connection, "j1", recorder, never, quick());
  restart.join();
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(recorder.seqs, (std::vector<int64_t>{1, 2}));
  EXPECT_GE(recorder.disconnections, 1);
}

TEST(Watch, AServerThatNeverAnsweredIsAnErrorAtOnce) {
  Connection connection("127.0.0.1:1");
  Recorder recorder;
  EXPECT_THROW(watch_job(connection, "j1", recorder, never, quick()), RpcError);
  EXPECT_EQ(recorder.disconnections, 0);
}

TEST(Watch, AServerThatStaysAwayIsGivenUpOn) {
  FakeServer server({.get =
                         [](v1::Job& job) {
                           job.set_state(v1::Job::RUNNING);
                           return grpc::Status::OK;
                         },
                     .watch =
                         [](const v1::WatchJobRequest&, grpc::ServerWriter<v1::Event>&) {
                           return grpc::Status(grpc::UNAVAILABLE, "");
                         }});
  Connection connection(server.address());
  Recorder recorder;
  FollowOptions options = quick();
  options.patience = milliseconds(300);
  options.tick = milliseconds(1000);
  EXPECT_THROW(watch_job(connection, "j1", recorder, never, options), RpcError);
  EXPECT_GT(recorder.disconnections, 1);
}

TEST(Watch, ARefusalIsNotTriedAgain) {
  int calls = 0;
  FakeServer server({.get = [&calls](v1::Job&) {
    ++calls;
    return grpc::Status(grpc::NOT_FOUND, "no job \"j1\"");
  }});
  Connection connection(server.address());
  Recorder recorder;
  EXPECT_THROW(watch_job(connection, "j1", recorder, never, quick()), RpcError);
  EXPECT_EQ(calls, 1);
}

struct JobsRecorder : JobsObserver {
  JobsRecorder() {
    connected = [this] { ++connections; };
    change = [this](const v1::JobChange& each) { ids.push_back(each.job().id()); };
  }

  std::vector<std::string> ids;
  int connections = 0;
};

TEST(WatchJobs, GoesOnAfterTheLastCursorUntilItIsInterrupted) {
  std::vector<std::string> asked_after;
  std::string asked_for;
  FakeServer server({.watch_all = [&](const v1::WatchJobsRequest& request,
                                      grpc::ServerWriter<v1::JobChange>& writer) {
    asked_after.push_back(request.cursor());
    asked_for = request.filter().name();
    v1::JobChange change;
    change.mutable_job()->set_id(std::to_string(asked_after.size()));
    if (asked_after.size() != 2) change.set_cursor("c" + change.job().id());
    writer.Write(change);
    return grpc::Status(asked_after.size() == 1 ? grpc::UNAVAILABLE : grpc::OK, "");
  }});
  Connection connection(server.address());
  JobsRecorder recorder;
  v1::ListJobsRequest::Filter filter;
  filter.set_name("a");
  watch_jobs(
      connection, filter, recorder, [&recorder] { return recorder.ids.size() == 3; }, quick());
  EXPECT_EQ(recorder.ids, (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(asked_after, (std::vector<std::string>{"", "c1", "c1"}));
  EXPECT_EQ(asked_for, "a");
  EXPECT_EQ(recorder.connections, 3);
}

TEST(WatchJobs, ARefusalIsNotTriedAgain) {
  int calls = 0;
  FakeServer server(
      {.watch_all = [&calls](const v1::WatchJobsRequest&, grpc::ServerWriter<v1::JobChange>&) {
        ++calls;
        return grpc::Status(grpc::INVALID_ARGUMENT, "no such filter");
      }});
  Connection connection(server.address());
  JobsRecorder recorder;
  EXPECT_THROW(watch_jobs(connection, {}, recorder, never, quick()), RpcError);
  EXPECT_EQ(calls, 1);
}

/// Shows these changes, each with a job's ID or an empty one. Returns the ID and the text of each
/// line.
std::vector<std::pair<std::string, std::string>> lines_of(
    const std::vector<std::pair<v1::JobChange::Kind, std::string>>& changes) {
  testing::internal::CaptureStdout();
  const JobsObserver view = jobs_view(10);
  view.connected();
  for (const auto& [kind, id] : changes) {
    v1::JobChange change;
    change.set_kind(kind);
    if (!id.empty()) {
      change.mutable_job()->set_id(id);
      change.mutable_job()->set_state(v1::Job::QUEUED);
    }
    view.change(change);
  }
  std::istringstream output(testing::internal::GetCapturedStdout());
  std::vector<std::pair<std::string, std::string>> lines;
  for (std::string line; std::getline(output, line);) {
    auto& [id, said] = lines.emplace_back();
    std::istringstream(line) >> id >> said;
  }
  return lines;
}

TEST(JobsView, AListingThatBeginsAgainTakesThePlaceOfWhatCameOfIt) {
  using Change = v1::JobChange;
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"ID", "STATE"}, {"kept", "queued"}, {"later", "queued"}, {"later", "gone"}};
  EXPECT_EQ(lines_of({{Change::LISTING, ""},
                      {Change::LISTED, "kept"},
                      {Change::LISTED, "deleted"},
                      {Change::CHANGED, "new"},
                      {Change::LISTING, ""},
                      {Change::LISTED, "kept"},
                      {Change::SYNCED, ""},
                      {Change::LISTING, ""},
                      {Change::LISTED, "later"},
                      {Change::LISTING, ""},
                      {Change::LISTED, "kept"},
                      {Change::SYNCED, ""}}),
            expected);
}

TEST(Watch, AnInterruptStopsItWhileNothingHappens) {
  std::atomic<bool> over = false;
  FakeServer server({.get =
                         [](v1::Job& job) {
                           job.set_state(v1::Job::RUNNING);
                           return grpc::Status::OK;
                         },
                     .watch =
                         [&over](const v1::WatchJobRequest&, grpc::ServerWriter<v1::Event>&) {
                           while (!over) std::this_thread::sleep_for(milliseconds(1));
                           return grpc::Status::OK;
                         }});
  Connection connection(server.address());
  Recorder recorder;
  const auto job = watch_job(
      connection, "j1", recorder, [&recorder] { return recorder.ticks > 2; }, quick());
  over = true;
  EXPECT_FALSE(job.has_value());
}

}  // namespace
}  // namespace dotresize
