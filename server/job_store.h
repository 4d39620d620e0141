#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "server/change_signal.h"

namespace dotresize {

struct NewJob {
  v1::JobSpec spec;
  std::string request_id;  ///< empty: none
  std::string output;      ///< output.path without symbolic links, see job_admission.h
};

struct JobQuery {
  int limit = 100;
  int64_t before = 0;                  ///< only jobs older than this position; 0: from the newest
  std::vector<v1::Job::State> states;  ///< empty: all
  std::string name;                    ///< empty: all
};

struct JobPage {
  std::vector<v1::Job> jobs;  ///< newest first
  int64_t next_before = 0;    ///< 0: there are no older ones
};

/// How a job ends.
struct Outcome {
  v1::Job::State state = v1::Job::STATE_UNSPECIFIED;  ///< SUCCEEDED, FAILED or CANCELLED
  std::optional<v1::JobError> error;                  ///< FAILED
  std::optional<v1::JobResult> result;                ///< SUCCEEDED
};

/// The durable table of jobs, their events and attempts. Every change is one committed transaction
/// before the call returns and before `changes()` tells of it. Safe to use from any thread. Throws
/// ApiError if the caller of the API is at fault, SQLite::Exception if the disk is.
class JobStore {
 public:
  explicit JobStore(const std::filesystem::path& database);

  /// The job that was created under this request_id, if there is one. ALREADY_EXISTS if it has
  /// another spec.
  std::optional<v1::Job> find_request(const std::string& request_id, const v1::JobSpec& spec);

  /// Queues the job, or returns the one that `request_id` has created already.
  /// FAILED_PRECONDITION if a job that has not ended has the same output, RESOURCE_EXHAUSTED
  /// if the queue is full.
  v1::Job create(const NewJob& job);

  /// NOT_FOUND.
  v1::Job get(const std::string& id);
  JobPage list(const JobQuery& query);
  /// In order; NOT_FOUND.
  std::vector<v1::Event> events_after(const std::string& id, int64_t seq, int limit);

  /// Ends a queued job, marks a launched one as `cancelling`, leaves an ended one. NOT_FOUND.
  v1::Job request_cancel(const std::string& id);

  /// Forgets an ended job; `before_commit` is called with the row still there. NOT_FOUND,
  /// FAILED_PRECONDITION.
  void remove(const std::string& id, const std::function<void()>& before_commit);

  std::optional<v1::Job> oldest_queued();
  /// STARTING and RUNNING, oldest first.
  std::vector<v1::Job> launched();

  /// The job becomes STARTING with the next attempt number, unless it has ended or been cancelled
  /// meanwhile.
  std::optional<v1::Job> begin_attempt(const std::string& id, const std::string& token_sha256,
                                       const std::string& reason);
  void finish(const std::string& id, const Outcome& outcome);

  /// Empty if there is no such attempt.
  std::string token_sha256(const std::string& id, int attempt);
  /// STARTING becomes RUNNING. False if this attempt is to stop: another one owns the job, the
  /// job has ended, or it is being cancelled.
  bool confirm_running(const std::string& id, int attempt);
  void record_progress(const std::string& id, int attempt, const v1::Progress& progress);
  /// The first report of an attempt counts.
  void record_failure(const std::string& id, int attempt, const v1::JobError& error);
  std::optional<v1::JobError> reported_failure(const std::string& id, int attempt);

  const ChangeSignal& changes() const { return changes_; }

 private:
  struct Row {
    int64_t number = 0;
    int64_t last_event = 0;
    v1::Job job;
  };

  std::optional<Row> load(const std::string& id);
  Row load_existing(const std::string& id);
  std::vector<v1::Job> jobs_in(const std::string& condition);
  std::optional<v1::Job> request_match(const std::string& request_id, const v1::JobSpec& spec);
  void refuse_busy_output(const std::string& output);
  void refuse_full_queue();
  Row insert(const NewJob& job);
  void save(const Row& row);
  void append(Row& row, v1::Event event);
  void enter(Row& row, v1::Job::State state, const std::string& reason);
  /// Runs `body` as one transaction under the lock, then tells of the change.
  void transact(const std::function<void()>& body);

  std::mutex mutex_;
  SQLite::Database database_;
  ChangeSignal changes_;
};

}  // namespace dotresize
