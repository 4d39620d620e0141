#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "server/common/api_error.h"
#include "server/store/job_store.h"
#include "tests/temporary_directory.h"

namespace dotresize {

inline NewJob new_job(const std::string& name, const std::string& request_id = "") {
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

inline std::vector<std::string> names(const JobPage& page) {
  std::vector<std::string> result;
  for (const v1::Job& job : page.jobs) result.push_back(job.spec().name());
  return result;
}

inline grpc::StatusCode code_of(const std::function<void()>& call) {
  try {
    call();
    return grpc::StatusCode::OK;
  } catch (const ApiError& error) {
    return error.code;
  }
}

/// A job table in a directory of its own.
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

}  // namespace dotresize
