// Tests of the Workers service over a real socket.
#include "server/api/workers_service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <future>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/access/access.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

class Workers : public ::testing::Test {
 protected:
  Workers() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = v1::Workers::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                     grpc::InsecureChannelCredentials()));
    NewJob job;
    job.spec.set_name("a");
    job.output = "/out/a";
    id_ = store_.create(job).id();
    store_.begin_attempt(id_, token_.sha256);
    heartbeats_.begin(id_);
  }

  v1::HeartbeatRequest request(const std::string& phase) const {
    v1::HeartbeatRequest request;
    request.set_job_id(id_);
    request.set_attempt(1);
    request.mutable_progress()->set_phase(phase);
    request.mutable_progress()->set_junctions_total(13);
    return request;
  }
  grpc::Status beat(const v1::HeartbeatRequest& request, const std::string& authorization) {
    grpc::ClientContext context;
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    return stub_->Heartbeat(&context, request, &response_);
  }
  grpc::Status beat(const v1::HeartbeatRequest& request) {
    return beat(request, "Bearer " + token_.secret);
  }
  int64_t events() { return static_cast<int64_t>(store_.events_after(id_, 0, 100).size()); }

  TemporaryDirectory home_;
  JobStore store_{home_.path() / "jobs.sqlite"};
  Heartbeats heartbeats_;
  WorkersService service_{store_, heartbeats_};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Workers::Stub> stub_;
  SecretToken token_ = make_secret_token();
  std::string id_;
  v1::HeartbeatResponse response_;
};

TEST_F(Workers, FirstHeartbeatMakesTheJobRun) {
  ASSERT_TRUE(beat(request("prepare")).ok());
  EXPECT_FALSE(response_.stop());
  EXPECT_EQ(store_.get(id_).state(), v1::Job::RUNNING);
  EXPECT_EQ(store_.get(id_).progress().phase(), "prepare");
}

TEST_F(Workers, AnythingButTheAttemptsOwnTokenIsUnauthenticated) {
  v1::HeartbeatRequest other_attempt = request("x");
  other_attempt.set_attempt(2);
  v1::HeartbeatRequest no_job = request("x");
  no_job.set_job_id("j-0000000000000000");
  for (const std::string& authorization :
       std::vector<std::string>{"", token_.secret, "Bearer ", "Bearer " + token_.secret + "0",
                                "bearer " + token_.secret, "Bearer " + std::string(64, '0')}) {
    EXPECT_EQ(beat(request("x"), authorization).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
  EXPECT_EQ(beat(other_attempt).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(beat(no_job).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(store_.get(id_).state(), v1::Job::STARTING);

  grpc::ClientContext context;
  v1::ReportFailureRequest failure;
  failure.set_job_id(id_);
  failure.set_attempt(1);
  failure.mutable_error()->set_code("RANK_FAILED");
  v1::ReportFailureResponse response;
  EXPECT_EQ(stub_->ReportFailure(&context, failure, &response).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_FALSE(store_.reported_failure(id_, 1));
}

TEST_F(Workers, CancelledJobIsToldToStop) {
  store_.request_cancel(id_);
  ASSERT_TRUE(beat(request("calibrate")).ok());
  EXPECT_TRUE(response_.stop());
}

TEST_F(Workers, JobIsHeardWhileAnotherProgramHasLockedTheTable) {
  SQLite::Database other((home_.path() / "jobs.sqlite").string(), SQLite::OPEN_READWRITE);
  other.exec("BEGIN IMMEDIATE");
  const auto begin = Heartbeats::Clock::now();
  EXPECT_EQ(beat(request("prepare")).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_LE(heartbeats_.silence(id_), Heartbeats::Clock::now() - begin);
  other.exec("ROLLBACK");
  EXPECT_TRUE(beat(request("prepare")).ok());
  EXPECT_EQ(store_.get(id_).state(), v1::Job::RUNNING);
}

TEST_F(Workers, JobIsHeardWhileTheTableIsWritten) {
  ASSERT_TRUE(beat(request("calibrate")).ok());
  NewJob job;
  job.output = "/out/b";
  const std::string other = store_.create(job).id();
  std::promise<void> writing;
  std::promise<void> heard;
  std::future_status in_time = std::future_status::timeout;
  auto writer = std::async(std::launch::async, [&] {
    store_.request_cancel(other, nullptr, [&](const v1::Job&, const std::string&) {
      writing.set_value();
      in_time = heard.get_future().wait_for(std::chrono::seconds(20));
    });
  });
  writing.get_future().wait();
  EXPECT_TRUE(beat(request("calibrate")).ok());
  heard.set_value();
  writer.get();
  EXPECT_EQ(in_time, std::future_status::ready);
}

TEST_F(Workers, ProgressIsStoredOncePerPhaseAndSecondAtMost) {
  ASSERT_TRUE(beat(request("calibrate")).ok());
  const int64_t before = events();
  for (int done = 1; done <= 5; ++done) {
    v1::HeartbeatRequest next = request("calibrate");
    next.mutable_progress()->set_junctions_done(done);
    ASSERT_TRUE(beat(next).ok());
  }
  EXPECT_LE(events(), before + 1);
  ASSERT_TRUE(beat(request("solve")).ok());
  EXPECT_EQ(store_.get(id_).progress().phase(), "solve");
}

TEST_F(Workers, ImpossibleProgressIsRefusedWithItsField) {
  const std::vector<std::pair<std::string, std::function<void(v1::Progress&)>>> cases = {
      {"progress.fraction", [](v1::Progress& p) { p.set_fraction(NAN); }},
      {"progress.fraction", [](v1::Progress& p) { p.set_fraction(1.5); }},
      {"progress.phase", [](v1::Progress& p) { p.set_phase(std::string(65, 'p')); }},
      {"progress", [](v1::Progress& p) { p.set_eta_s(INFINITY); }},
      {"progress.junctions_done", [](v1::Progress& p) { p.set_junctions_done(14); }},
      {"progress.junctions_done", [](v1::Progress& p) { p.set_junctions_done(-1); }}};
  for (const auto& [field, spoil] : cases) {
    v1::HeartbeatRequest bad = request("calibrate");
    spoil(*bad.mutable_progress());
    const grpc::Status status = beat(bad);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << field;
    google::rpc::Status details;
    ASSERT_TRUE(details.ParseFromString(status.error_details()));
    google::rpc::ErrorInfo info;
    ASSERT_TRUE(details.details(0).UnpackTo(&info));
    EXPECT_EQ(info.domain(), "dotresize");
    google::rpc::BadRequest violations;
    ASSERT_TRUE(details.details(1).UnpackTo(&violations));
    EXPECT_EQ(violations.field_violations(0).field(), field);
  }
}

TEST_F(Workers, FailureIsKeptInPrintableForm) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + token_.secret);
  v1::ReportFailureRequest failure;
  failure.set_job_id(id_);
  failure.set_attempt(1);
  failure.mutable_error()->set_code("RANK_FAILED");
  failure.mutable_error()->set_message("line\n" + std::string(5000, 'm'));
  failure.mutable_error()->set_rank(3);
  v1::ReportFailureResponse response;
  ASSERT_TRUE(stub_->ReportFailure(&context, failure, &response).ok());
  const v1::JobError kept = *store_.reported_failure(id_, 1);
  EXPECT_EQ(kept.rank(), 3);
  EXPECT_EQ(kept.message().size(), 2000u);
  EXPECT_EQ(kept.message().substr(0, 6), "line m");
}

}  // namespace
}  // namespace dotresize
