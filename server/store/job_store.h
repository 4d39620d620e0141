#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/files/unique_fd.h"
#include "base/process/mutex.h"
#include "dotresize/v1/jobs.pb.h"
#include "server/store/clocks.h"
#include "server/store/job_records.h"
#include "server/store/recent_changes.h"

namespace dotresize {

/// Wakes threads that wait for changes. Read `version()` before the data, then wait for a later
/// version, so that no change is missed.
class ChangeSignal {
 public:
  uint64_t version() const {
    const Lock lock(mutex_);
    return version_;
  }

  void notify() {
    {
      const Lock lock(mutex_);
      ++version_;
    }
    changed_.notify_all();
  }

  void wait_past(uint64_t version, std::chrono::milliseconds longest) const {
    Lock lock(mutex_);
    changed_.wait_for(lock, longest,
                      [&]() DOTRESIZE_REQUIRES(mutex_) { return version_ != version; });
  }

 private:
  mutable Mutex mutex_;
  mutable Condition changed_;
  uint64_t version_ DOTRESIZE_GUARDED_BY(mutex_) = 0;
};

/// Number of the newest job that a client was told of, in a file beside the job table. It reveals a
/// table that has lost its newest rows, which SQLite does not notice. Thread-safe.
class AcknowledgedJobs {
 public:
  /// Opens the file; creates it if it is missing. Throws std::system_error; std::runtime_error,
  /// which says how to go on, if a job was acknowledged that `table` has never known.
  AcknowledgedJobs(std::filesystem::path file, const SQLite::Database& table);

  /// Records a job that is about to be acknowledged. A failed write is only logged.
  void put(int64_t number);

 private:
  const std::filesystem::path path_;
  const UniqueFd file_;
  Mutex mutex_;
  int64_t newest_ DOTRESIZE_GUARDED_BY(mutex_) = 0;
};

/// Final state of a job.
struct Outcome {
  v1::Job::State state = v1::Job::STATE_UNSPECIFIED;  ///< SUCCEEDED, FAILED or CANCELLED
  std::optional<v1::JobError> error;                  ///< FAILED
  std::optional<v1::JobResult> result;                ///< SUCCEEDED
};

/// Counts of what has been stored since the start of the server.
struct JobTotals {
  int64_t created = 0;
  int64_t attempts = 0;
  int64_t events = 0;
  /// Number of ended jobs by final state and error code; the code is empty without an error.
  std::map<std::pair<v1::Job::State, std::string>, int64_t> ended;
  double last_success = 0.0;  ///< Unix time of the last success, also of earlier servers; 0: none
};

/// Page of jobs, and the last change that it includes.
struct JobListing {
  JobPage page;
  int64_t last_change = 0;  ///< number in RecentChanges; 0: no change yet
};

/// Way in which an ended job is resumed.
enum class Resumption {
  kGoOn,    ///< from its journal, with the same Hub commits of its inputs
  kAfresh,  ///< from the beginning, like a new job
  kPush,    ///< push only: the output is complete
};

/// Durable job table with its rules: which change is allowed in which state. Every change is one
/// transaction, which is committed before the call returns and before `changes()` signals it. A
/// damaged event has only its number. Thread-safe. Throws ApiError for a fault of the API's caller,
/// SQLite::Exception for a fault of the disk.
class JobStore {
 public:
  /// `max_queued`: queued jobs of one owner that has a name, so that none fills the queue.
  explicit JobStore(const std::filesystem::path& database, int max_queued = kMaxQueuedJobs / 2,
                    TableClock::Wall::time_point now = TableClock::Wall::now());

  /// Limit of queued jobs of all owners together.
  static constexpr int kMaxQueuedJobs = 10000;

  /// Returns the job that this owner has created under this request_id, if any. Throws
  /// ALREADY_EXISTS if that job has another spec or sweep, or other options.
  std::optional<v1::Job> find_request(const std::string& request_id, const v1::JobSpec& spec,
                                      const std::string& owner = "",
                                      const v1::JobOptions& options = {},
                                      const std::optional<v1::SweepSpec>& sweep = std::nullopt);

  /// Queues a new job, or returns the one that `request_id` of its owner has created already.
  /// Throws FAILED_PRECONDITION if its paths collide with those of a job that has not ended,
  /// RESOURCE_EXHAUSTED if the queue is full.
  v1::Job create(const NewJob& job);

  /// Throws NOT_FOUND.
  v1::Job get(const std::string& id);
  /// Returns nullopt if the job does not exist.
  std::optional<v1::Job> find(const std::string& id);
  /// Returns the path that the job writes: output.path without symbolic links. Throws NOT_FOUND.
  std::string output_of(const std::string& id);
  /// Returns NewJob.plan; empty if unknown.
  std::string plan_of(const std::string& id);
  JobPage list(const JobQuery& query);
  /// Lists a page, and returns the last change in recent() that the page includes; no later change
  /// is included.
  JobListing listing(const JobQuery& query);
  /// Throws NOT_FOUND.
  JobPosition position(const std::string& id);
  /// Returns events in order. Throws NOT_FOUND.
  std::vector<v1::Event> events_after(const std::string& id, int64_t seq, int limit);

  /// Callback inside a transaction. Must be short, because all other writers wait. `output`:
  /// output_of() the job.
  using Step = std::function<void(const v1::Job& job, const std::string& output)>;
  /// Cancels a queued job, marks a launched one as `cancelling`, leaves an ended one. Sets
  /// `*before` to the previous state; calls `before_commit` if the job is cancelled now. Throws
  /// NOT_FOUND.
  v1::Job request_cancel(
      const std::string& id, v1::Job::State* before = nullptr,
      const Step& before_commit = [](const v1::Job&, const std::string&) {});

  /// Deletes an ended job; calls `before_commit` in the transaction. Throws NOT_FOUND,
  /// FAILED_PRECONDITION.
  void remove(const std::string& id, const Step& before_commit);
  /// Queues a failed or cancelled job again; calls `before_commit` in the transaction. Throws
  /// NOT_FOUND; FAILED_PRECONDITION for a job in another state, with a damaged record, or with
  /// paths that another job uses; RESOURCE_EXHAUSTED if the queue is full.
  v1::Job resume(const std::string& id, const std::vector<PathClaim>& claims,
                 const Step& before_commit, Resumption way = Resumption::kGoOn);

  /// Returns queued jobs whose retry_time has come: up to `limit` that run here and up to `limit`
  /// that run elsewhere. Order: priority, then age.
  std::vector<QueuedJob> queued(int limit);
  /// Returns the ids of the first `limit` queued jobs, in the queue's order, including those that
  /// wait for their retry_time.
  std::vector<std::string> queue(int limit);
  /// Returns the job's place in the queue; 1 is the head. Throws NOT_FOUND.
  int queue_position(const std::string& id);
  /// Returns the ids of the first `limit` queued jobs whose inputs are still to be fetched.
  std::vector<std::string> to_fetch(int limit);
  /// Returns the jobs that have not ended, oldest first.
  std::vector<v1::Job> unended();
  /// Records the progress of fetching. Does nothing unless the job is QUEUED and fetching.
  void record_fetch(const std::string& id, const v1::Progress& progress);
  /// Ends the fetching of a queued job, which may then be started. Stores the files and the memory
  /// of `fetched`, and the plan. Returns false if the job is no longer QUEUED.
  bool finish_fetch(const v1::Job& fetched, const std::string& plan);
  /// Marks the job FAILED. Does nothing if it is no longer QUEUED.
  void fail_fetch(const std::string& id, const v1::JobError& error);
  /// Returns the ids of ended jobs whose ttl_seconds_after_finished have passed.
  std::vector<std::string> expired(int limit);
  /// Marks the job as pushing: RUNNING, and without GPUs. Called when the attempt has made an
  /// output to push. Returns false if this attempt is not launched.
  bool begin_push(const std::string& id, int attempt);
  /// Returns the STARTING and RUNNING jobs, oldest first.
  std::vector<v1::Job> launched();

  /// Makes the job STARTING with the next attempt number and these GPUs. Returns nullopt if the job
  /// has ended, is being cancelled or was deleted.
  std::optional<v1::Job> begin_attempt(const std::string& id, const std::string& token_sha256,
                                       const std::string& gpus = "");
  /// Stores the reason to stop a launched attempt. The first reason stays until the attempt has
  /// ended.
  void request_stop(const std::string& id, int attempt, const v1::JobError& reason);
  void finish(const std::string& id, const Outcome& outcome);
  /// Queues a launched job again for another attempt, after `pause`. `started`: the last attempt
  /// has had processes. Returns false and changes nothing if the job is being cancelled.
  bool requeue(const std::string& id, const std::string& reason, std::chrono::milliseconds pause,
               bool started = true);

  /// Moves all times that something waits for by `jump`, and the clock() with them, after the wall
  /// clock was set by that much.
  void shift_waits(std::chrono::milliseconds jump);
  /// Clock by which these waits end.
  const TableClock& clock() const { return clock_; }

  /// Returns the hash of the attempt's token; empty if the attempt does not exist.
  std::string token_sha256(const std::string& id, int attempt);
  /// Returns true if this attempt is to go on: it is the job's current one, and the job has not
  /// ended and is not being cancelled or stopped. Throws NOT_FOUND.
  bool is_wanted(const std::string& id, int attempt);
  /// Makes a STARTING job RUNNING, if this is its current attempt. Throws NOT_FOUND.
  void confirm_running(const std::string& id, int attempt);
  void record_progress(const std::string& id, int attempt, const v1::Progress& progress);
  /// Stores the failure that an attempt reports. Only the first report counts.
  void record_failure(const std::string& id, int attempt, const v1::JobError& error);
  std::optional<v1::JobError> reported_failure(const std::string& id, int attempt);

  /// Returns the ids of ended jobs with a notification due, longest due first.
  std::vector<std::string> due_notifications(int limit);
  /// Stores the state of a notification. Does nothing if the job was resumed or deleted meanwhile.
  void record_notification(const std::string& id, const v1::Notification& now);
  /// Makes a pending notification due again after `pause`; removes the due time of any other.
  void put_off_notification(const std::string& id, std::chrono::milliseconds pause);

  JobTotals totals();
  /// Returns the number of jobs in each state.
  std::map<v1::Job::State, int64_t> counts();
  /// Returns the time when the job at the head of the queue was queued.
  std::optional<google::protobuf::Timestamp> head_queued_since();

  /// A fault if nothing can be stored now.
  Verdict check();

  const ChangeSignal& changes() const { return changes_; }
  /// Returns the changes of jobs committed since the start of the server.
  const RecentChanges& recent() const { return recent_; }

 private:
  /// Runs `body` as one transaction under the lock, then signals the change. The methods below are
  /// for `body`.
  void transact(const std::function<void()>& body);
  /// Throws NOT_FOUND.
  JobRow load(const std::string& id) DOTRESIZE_REQUIRES(mutex_);
  std::optional<v1::Job> request_match(const std::string& request_id, const v1::JobSpec& spec,
                                       const std::string& owner, const v1::JobOptions& options,
                                       const std::optional<v1::SweepSpec>& sweep)
      DOTRESIZE_REQUIRES(mutex_);
  /// Refuses claims that collide with another job's: a path of the one contains a path of the
  /// other, and one of the two is written. Throws RESOURCE_EXHAUSTED for more paths than one job
  /// may have.
  void claim(int64_t number, const std::vector<PathClaim>& claims) DOTRESIZE_REQUIRES(mutex_);
  void refuse_full_queue(const std::string& owner) DOTRESIZE_REQUIRES(mutex_);
  /// Sets the time (Unix, ms) to send the notification of the job's end; 0: none.
  void notify_at(int64_t number, int64_t at_ms) DOTRESIZE_REQUIRES(mutex_);
  /// Appends the event with the next number and the current time.
  void append(JobRow& row, v1::Event event) DOTRESIZE_REQUIRES(mutex_);
  /// Sets the job's progress, appends it as an event and saves the row.
  void tell(JobRow& row, const v1::Progress& progress) DOTRESIZE_REQUIRES(mutex_);
  void save(JobRow& row) DOTRESIZE_REQUIRES(mutex_);
  /// Changes the job's state, and appends an event.
  void enter(JobRow& row, v1::Job::State state, const std::string& reason)
      DOTRESIZE_REQUIRES(mutex_);

  const int max_queued_;
  TableClock clock_;
  Mutex mutex_;
  SQLite::Database table_ DOTRESIZE_GUARDED_BY(mutex_);
  JobTotals totals_ DOTRESIZE_GUARDED_BY(mutex_);
  JobTotals uncommitted_
      DOTRESIZE_GUARDED_BY(mutex_);  ///< counts of the current transaction; last_success 0: none
  std::vector<RecentChange> uncommitted_changes_ DOTRESIZE_GUARDED_BY(mutex_);
  AcknowledgedJobs acknowledged_;
  Mutex read_mutex_;
  SQLite::Database reader_
      DOTRESIZE_GUARDED_BY(read_mutex_);  ///< sees committed data; readers do not wait for commits
  Mutex list_mutex_;                      ///< taken before mutex_
  SQLite::Database lister_ DOTRESIZE_GUARDED_BY(
      list_mutex_);  ///< for reads of many rows: heartbeats and GetJob do not wait for them
  RecentChanges recent_;
  ChangeSignal changes_;
};

/// Returns true if this attempt is the job's last one and may have processes.
bool is_launched_attempt(const v1::Job& job, int attempt);

}  // namespace dotresize
