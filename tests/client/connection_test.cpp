#include "client/calls/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/process/program.h"
#include "client/calls/follow.h"
#include "client/calls/rpc_error.h"
#include "client/verbs/verb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/client/fake_jobs.h"

namespace dotresize {
namespace {

using testing::HasSubstr;

/// Returns the error of GetJob when the server answers with `status`.
RpcError error_of(const grpc::Status& status) {
  FakeServer server({.get = [status](v1::Job&) { return status; }});
  Connection connection(server.address());
  try {
    connection.get_job("j1");
  } catch (const RpcError& error) {
    return error;
  }
  throw std::logic_error("the call succeeded");
}

grpc::Status bad_request() {
  google::rpc::BadRequest details;
  for (const char* field : {"method.sparsity", "resources.ranks"}) {
    auto& violation = *details.add_field_violations();
    violation.set_field(field);
    violation.set_description("is wrong");
  }
  google::rpc::Status status;
  status.set_code(grpc::INVALID_ARGUMENT);
  status.set_message("bad spec");
  status.add_details()->PackFrom(details);
  return {grpc::INVALID_ARGUMENT, "bad spec", status.SerializeAsString()};
}

TEST(ExitCodes, FollowTheCodeOfTheCall) {
  const std::vector<std::pair<grpc::StatusCode, int>> expected = {
      {grpc::INVALID_ARGUMENT, kExitBadData}, {grpc::NOT_FOUND, kExitBadData},
      {grpc::ALREADY_EXISTS, kExitBadData},   {grpc::FAILED_PRECONDITION, kExitBadData},
      {grpc::UNAVAILABLE, kExitUnavailable},  {grpc::UNIMPLEMENTED, kExitUnavailable},
      {grpc::INTERNAL, kExitUnavailable},     {grpc::RESOURCE_EXHAUSTED, kExitTryAgain},
      {grpc::ABORTED, kExitTryAgain},         {grpc::UNAUTHENTICATED, kExitDenied},
      {grpc::PERMISSION_DENIED, kExitDenied},
  };
  for (const auto& [code, exit_code] : expected) {
    const RpcError error = error_of({code, "a reason"});
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(exit_code_for(error.code()), exit_code) << code_name(code);
  }
}

TEST(RpcError, ListsTheFieldsThatTheServerObjectsTo) {
  const RpcError error = error_of(bad_request());
  ASSERT_EQ(error.violations().size(), 2u);
  EXPECT_EQ(error.violations()[1].field, "resources.ranks");
  EXPECT_THAT(error.what(), HasSubstr("\n  method.sparsity: is wrong\n  resources.ranks: "));
}

TEST(RpcError, OtherwiseRepeatsTheServersOwnWords) {
  EXPECT_STREQ(error_of({grpc::NOT_FOUND, "no job \"j1\""}).what(), "no job \"j1\"");
  EXPECT_STREQ(error_of({grpc::NOT_FOUND, ""}).what(), "NOT_FOUND");
}

TEST(RpcError, DetailsThatAreNotProtobufAreIgnored) {
  const RpcError error = error_of({grpc::INVALID_ARGUMENT, "bad spec", "\xff\xff not a message"});
  EXPECT_TRUE(error.violations().empty());
  EXPECT_STREQ(error.what(), "bad spec");
}

TEST(Connection, NamesTheAddressWhereNobodyListens) {
  Connection connection("127.0.0.1:1");
  try {
    connection.get_job("j1");
    FAIL() << "nobody listens on port 1";
  } catch (const RpcError& error) {
    EXPECT_EQ(error.code(), grpc::UNAVAILABLE);
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:1"));
    EXPECT_THAT(error.what(), HasSubstr("DOTRESIZE_SERVER"));
  }
}

TEST(CreateJob, ARetryCarriesTheSameRequestId) {
  std::vector<std::string> ids;
  FakeServer server({.create = [&ids](const v1::CreateJobRequest& request, v1::Job& job) {
    ids.push_back(request.request_id());
    job.set_id("j1");
    return ids.size() < 3 ? grpc::Status(grpc::UNAVAILABLE, "going down") : grpc::Status::OK;
  }});
  Connection connection(server.address());
  v1::CreateJobRequest request;
  request.set_request_id(new_request_id());
  int notices = 0;
  const v1::Job job = connection.create(
      &v1::Jobs::Stub::CreateJob, request, [&notices](const std::string&) { ++notices; },
      std::chrono::seconds(10));
  EXPECT_EQ(job.id(), "j1");
  EXPECT_EQ(ids, std::vector<std::string>(3, request.request_id()));
  EXPECT_EQ(notices, 1);
}

TEST(CreateJob, ARefusalIsNotTriedAgain) {
  int calls = 0;
  FakeServer server({.create = [&calls](const v1::CreateJobRequest&, v1::Job&) {
    ++calls;
    return grpc::Status(grpc::RESOURCE_EXHAUSTED, "queue is full");
  }});
  Connection connection(server.address());
  EXPECT_THROW(connection.create(
                   &v1::Jobs::Stub::CreateJob, v1::CreateJobRequest(), [](const std::string&) {},
                   std::chrono::seconds(10)),
               RpcError);
  EXPECT_EQ(calls, 1);
}

TEST(Prune, WaitsForTheServerAndPassesOverJobsThatAreGoneOrNotToBeDeleted) {
  std::vector<std::string> asked;
  FakeServer server({
      .list =
          [](const v1::ListJobsRequest&, v1::ListJobsResponse& response) {
            for (const char* id : {"j-1", "j-2", "j-3", "j-4"}) response.add_jobs()->set_id(id);
            return grpc::Status::OK;
          },
      .remove =
          [&asked](const std::string& id) {
            asked.push_back(id);
            if (asked.size() == 1) return grpc::Status(grpc::RESOURCE_EXHAUSTED, "too many calls");
            if (id == "j-2") return grpc::Status(grpc::NOT_FOUND, "no such job");
            if (id == "j-3") return grpc::Status(grpc::FAILED_PRECONDITION, "it runs");
            return grpc::Status::OK;
          },
  });
  CommonOptions common;
  common.server = server.address();
  common.output = "json";
  CLI::App app;
  const Verb prune = add_prune_verb(app, common);
  app.parse("prune --keep-days 0");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(prune.action(), kExitOk);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("kept j-3: it runs"));
  const auto answer = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(answer.at("ids").get<std::vector<std::string>>(),
            (std::vector<std::string>{"j-1", "j-2", "j-4"}));
  EXPECT_EQ(asked, (std::vector<std::string>{"j-1", "j-1", "j-2", "j-3", "j-4"}));
}

TEST(RequestId, IsAVersion4UuidAndNeverTheSame) {
  const std::string id = new_request_id();
  EXPECT_THAT(id, testing::MatchesRegex(
                      "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
  EXPECT_NE(id, new_request_id());
}

TEST(Logs, FollowingResumesAtTheByteWhereTheServerLeftOff) {
  const std::string log = "first second";
  std::vector<int64_t> offsets;
  v1::Job::State state = v1::Job::RUNNING;
  FakeServer server({
      .get =
          [&state](v1::Job& job) {
            job.set_state(state);
            return grpc::Status::OK;
          },
      .logs =
          [&](const v1::GetLogsRequest& request, grpc::ServerWriter<v1::LogChunk>& writer) {
            offsets.push_back(request.offset());
            const bool first = offsets.size() == 1;
            if (!first) state = v1::Job::SUCCEEDED;
            const std::string piece = log.substr(request.offset(), 6);
            v1::LogChunk chunk;
            chunk.set_data(piece);
            chunk.set_next_offset(request.offset() + std::ssize(piece));
            if (!piece.empty()) writer.Write(chunk);
            return first ? grpc::Status(grpc::UNAVAILABLE, "going down") : grpc::Status::OK;
          },
  });
  Connection connection(server.address());
  std::string text;
  read_logs(connection, "j1", true, [&text](const std::string& piece) { text += piece; });
  EXPECT_EQ(text, log);
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 6, 12}));
}

TEST(Logs, TailIsTransferredAlone) {
  FakeServer server(
      {.logs = [](const v1::GetLogsRequest& request, grpc::ServerWriter<v1::LogChunk>& writer) {
        v1::LogChunk chunk;
        for (const char* piece : {"last ", "line\n"}) {
          chunk.set_data(request.id() + std::to_string(request.tail_bytes()) + piece);
          writer.Write(chunk);
        }
        return grpc::Status::OK;
      }});
  Connection connection(server.address());
  EXPECT_EQ(read_log_tail(connection, "j", 64), "j64last j64line\n");
  Connection nobody("127.0.0.1:1");
  EXPECT_THROW(read_log_tail(nobody, "j", 64), RpcError);
}

}  // namespace
}  // namespace dotresize
