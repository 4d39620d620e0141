#include "server/launch/kubernetes/kubernetes_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "server/launch/kubernetes/kubernetes_api.h"
#include "server/launch/outcome.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

using ::testing::HasSubstr;

/// Returns an MPIJob for which these conditions hold, with one reason and message.
MpiJob job_in(const std::vector<std::string>& conditions, const std::string& reason = "",
              const std::string& message = "") {
  MpiJob job;
  job.name = "dotresize-j-1-1";
  for (const std::string& type : conditions) job.conditions[type] = {true, reason, message};
  return job;
}

constexpr char kList[] = R"({"kind": "MPIJobList", "metadata": {"continue": "eyJ2"}, "items": [
  {"metadata": {"name": "a", "uid": "u-1", "labels": {"dotresize.dev/job": "j-1"},
                "deletionTimestamp": "2026-01-01T00:00:00Z"}},
  {"metadata": {"name": "b", "uid": "u-2"}, "status": {
     "conditions": [{"type": "Created", "status": "True", "reason": "MPIJobCreated"},
                    {"type": "Running", "status": "False", "message": "a\u001b[31m\nb"}],
     "replicaStatuses": {"Launcher": {}, "Worker": {"active": 2}}}}]})";

TEST(Kubernetes, ListSaysHowJobsStand) {
  const MpiJobPage page = parse_mpi_jobs(kList);
  ASSERT_EQ(page.jobs.size(), 2u);
  EXPECT_EQ(page.next, "eyJ2");
  EXPECT_TRUE(page.jobs[0].deleting);
  EXPECT_EQ(page.jobs[0].uid, "u-1");
  EXPECT_EQ(page.jobs[0].labels.at("dotresize.dev/job"), "j-1");
  EXPECT_FALSE(page.jobs[1].deleting);
  EXPECT_TRUE(page.jobs[1].is("Created"));
  EXPECT_FALSE(page.jobs[1].is("Running"));
  EXPECT_EQ(page.jobs[1].workers, 2);
  EXPECT_EQ(page.jobs[1].conditions.at("Running").message, "a?[31m b");
}

TEST(Kubernetes, AnswerOfAnotherFormIsNoEmptyList) {
  for (const char* text : {"", "[]", "{}", R"({"items": [{}], "metadata": {}})",
                           R"({"items": [{"metadata": {"name": 3, "uid": ""}}], "metadata": {}})",
                           R"({"items": {"a": 1}, "metadata": {}})"}) {
    EXPECT_THROW(parse_mpi_jobs(text), std::runtime_error) << text;
  }
  EXPECT_THROW(parse_mpi_job(R"({"kind": "Status"})"), std::runtime_error);
}

TEST(Kubernetes, NobodyIsExpectedToCallBeforeAllPodsRun) {
  EXPECT_THAT(status_of(job_in({})).note, HasSubstr("does mpi-operator run?"));
  const std::vector<std::vector<std::string>> waiting = {
      {}, {"Created"}, {"Created", "Suspended"}, {"Running", "Suspended"}};
  for (const auto& conditions : waiting) {
    EXPECT_EQ(status_of(job_in(conditions)).liveness, Liveness::kWaiting);
  }
  MpiJob running = job_in({"Created", "Running"});
  EXPECT_EQ(status_of(running).liveness, Liveness::kAlive);
  running.deleting = true;
  EXPECT_EQ(status_of(running).liveness, Liveness::kWaiting);
}

TEST(Kubernetes, EndOfTheLauncherIsTheEndOfTheAttempt) {
  const AttemptStatus done = status_of(job_in({"Created", "Succeeded"}));
  EXPECT_EQ(done.liveness, Liveness::kExited);
  EXPECT_EQ(done.exit.exit_code, 0);
  const AttemptStatus failed =
      status_of(job_in({"Created", "Failed"}, "BackoffLimitExceeded/", "limit: "));
  EXPECT_EQ(failed.liveness, Liveness::kExited);
  EXPECT_NE(failed.exit.exit_code, 0);
  EXPECT_FALSE(failed.failure) << "a rank or the log says why";
}

TEST(Kubernetes, WhatTheClusterDoesToAPodIsTriedAgain) {
  for (const char* reason :
       {"MPIJobEvicted", "BackoffLimitExceeded/Evicted", "BackoffLimitExceeded/NodeLost",
        "BackoffLimitExceeded/Terminated", "BackoffLimitExceeded/Preempting",
        "BackoffLimitExceeded/NodeShutdown", "BackoffLimitExceeded"}) {
    const AttemptStatus status = status_of(job_in({"Failed"}, reason, "1/2 workers"));
    EXPECT_EQ(status.liveness, Liveness::kExited) << reason;
    ASSERT_TRUE(status.failure) << reason;
    EXPECT_EQ(status.failure->code, kLost) << reason;
    EXPECT_THAT(status.failure->message, HasSubstr(std::string(reason) + ": 1/2 workers"));
  }
  EXPECT_EQ(status_of(job_in({"Failed"}, "DeadlineExceeded")).failure->code, kDeadlineExceeded);
  EXPECT_TRUE(tells_of_lost_pod("---\nORTE has lost communication with a remote daemon.\n"));
  EXPECT_FALSE(tells_of_lost_pod("mpirun noticed that process rank 1 exited on signal 9"));
}

TEST(Kubernetes, RefusalIsNoSilence) {
  for (const int status : {400, 403, 413, 422}) EXPECT_TRUE(is_refusal(status)) << status;
  for (const int status : {200, 401, 404, 409, 429, 500, 503})
    EXPECT_FALSE(is_refusal(status)) << status;
  EXPECT_EQ(api_message(403, R"({"kind": "Status", "message": "no\nquota"})"), "403 no quota");
  EXPECT_EQ(api_message(502, "<html>"), "502 <html>");
  EXPECT_LT(api_message(500, std::string(100000, 'x')).size(), 600u);
}

TEST(Kubernetes, LabelsTellAttemptsOfOneNameApart) {
  const auto labels = mpi_job_labels("j-1", 2, "secret");
  EXPECT_EQ(labels.at("dotresize.dev/attempt"), "2");
  EXPECT_NE(labels, mpi_job_labels("j-1", 2, "other"));
  for (const auto& [key, value] : labels) {
    EXPECT_EQ(value.find("secret"), std::string::npos);
    EXPECT_LE(value.size(), 63u) << key;
  }
}

TEST(Kubernetes, OnlyHttpsIsAnApi) {
  for (const char* url :
       {"https://k8s", "https://k8s:6443", "https://[::1]:6443/", "https://k8s/clusters/a-1"}) {
    EXPECT_EQ(api_url_fault(url), "") << url;
  }
  for (const char* url :
       {"http://k8s", "k8s:6443", "https://", "https://k8s:70000", "https://k8s/?x=1"}) {
    EXPECT_NE(api_url_fault(url), "") << url;
  }
}

TEST(Kubernetes, AccessOfAPodIsCompletedAndATokenIsOneWord) {
  const TemporaryDirectory home;
  home.write("token", "eyJh.b-_c\n");
  home.write("ca.crt", "");
  KubernetesAccess access = {"", home / "token", home / "ca.crt", "models"};
  ::setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  ::setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  EXPECT_EQ(complete_access(access).url, "https://[fd00::1]:443");
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_THROW(complete_access(access), InputError);
  access.url = "https://k8s:6443";
  EXPECT_EQ(complete_access(access).url, access.url);
  home.write("token", "two words\r\nX-Header: 1");
  EXPECT_THROW(complete_access(access), InputError);
  home.write("token", "eyJh");
  access.space = "a/b";
  EXPECT_THROW(complete_access(access), InputError);
}

}  // namespace
}  // namespace dotresize
