#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "server/api/acknowledged_jobs.h"
#include "server/store/job_table.h"
#include "server/store/recent_changes.h"

namespace dotresize {

/// Tells waiting threads that something has changed. Take `version()` before looking at the data,
/// then wait for a later one: no change is missed.
class ChangeSignal {
 public:
  uint64_t version() const {
    const std::lock_guard lock(mutex_);
    return version_;
  }

  void notify() {
    {
      const std::lock_guard lock(mutex_);
      ++version_;
    }
    changed_.notify_all();
  }

  void wait_past(uint64_t version, std::chrono::milliseconds longest) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, longest, [&] { return version_ != version; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint64_t version_ = 0;
};

/// How a job ends.
struct Outcome {
  v1::Job::State state = v1::Job::STATE_UNSPECIFIED;  ///< SUCCEEDED, FAILED or CANCELLED
  std::optional<v1::JobError> error;                  ///< FAILED
  std::optional<v1::JobResult> result;                ///< SUCCEEDED
};

/// What has been stored since the start of the server.
struct JobTotals {
  int64_t created = 0;
  int64_t attempts = 0;
  int64_t events = 0;
  /// By final state and code of the error, which is empty without one.
  std::map<std::pair<v1::Job::State, std::string>, int64_t> ended;
  double last_success = 0.0;  ///< Unix time of the last success, also of earlier servers; 0: none

  void add(const JobTotals& more);
};

/// A page of the jobs as they were after a change.
struct JobListing {
  JobPage page;
  int64_t last_change = 0;  ///< of RecentChanges; 0: none yet
};

/// How an ended job goes on.
enum class Resumption {
  kGoOn,    ///< from its journal, and from the commits of the Hub that it has read
  kAfresh,  ///< as a new one
  kPush,    ///< its output is made, and only to be pushed
};

/// The rules of the durable job table: which change is allowed in which state. Every change is one
/// committed transaction before the call returns and before `changes()` tells of it. Safe to use
/// from any thread. Throws ApiError if the caller of the API is at fault, SQLite::Exception if the
/// disk is.
class JobStore {
 public:
  /// `max_queued`: jobs of one owner.
  explicit JobStore(const std::filesystem::path& database, int max_queued = kMaxQueuedJobs);

  /// Of all owners.
  static constexpr int kMaxQueuedJobs = 10000;

  /// The job that was created under this request_id, if there is one. ALREADY_EXISTS if it has
  /// another spec, owner, sweep or other options.
  std::optional<v1::Job> find_request(const std::string& request_id, const v1::JobSpec& spec,
                                      const std::string& owner = "",
                                      const v1::JobOptions& options = {},
                                      const std::optional<v1::SweepSpec>& sweep = std::nullopt);

  /// Queues the job, or returns the one that `request_id` has created already.
  /// FAILED_PRECONDITION if a job that has not ended uses the same paths, RESOURCE_EXHAUSTED
  /// if the queue is full.
  v1::Job create(const NewJob& job);

  /// NOT_FOUND.
  v1::Job get(const std::string& id);
  /// Nothing if there is no such job.
  std::optional<v1::Job> find(const std::string& id);
  /// Where the job writes: output.path without symbolic links. NOT_FOUND.
  std::string output_of(const std::string& id);
  /// NewJob.plan; empty if it is not known.
  std::string plan_of(const std::string& id);
  JobPage list(const JobQuery& query);
  /// The same, and what the page takes into account of recent(): that and nothing later.
  JobListing listing(const JobQuery& query);
  /// NOT_FOUND.
  JobPosition position(const std::string& id);
  /// In order; NOT_FOUND.
  std::vector<v1::Event> events_after(const std::string& id, int64_t seq, int limit);

  /// A step of a transaction: short, for all others wait. `output` as of output_of().
  using Step = std::function<void(const v1::Job& job, const std::string& output)>;
  /// Ends a queued job, marks a launched one as `cancelling`, leaves an ended one. NOT_FOUND.
  /// `before` becomes the state that it had; `before_commit` is called if the job ends.
  v1::Job request_cancel(
      const std::string& id, v1::Job::State* before = nullptr,
      const Step& before_commit = [](const v1::Job&, const std::string&) {});

  /// Forgets an ended job; `before_commit` is called with the row still there. NOT_FOUND,
  /// FAILED_PRECONDITION.
  void remove(const std::string& id, const Step& before_commit);
  /// Makes a failed or cancelled job QUEUED again; `before_commit` as in remove(). Throws ApiError
  /// for any other.
  v1::Job requeue(const std::string& id, const std::vector<PathClaim>& claims,
                  const Step& before_commit, Resumption way = Resumption::kGoOn);

  /// Of the queue whose retry_time has come, the first so many that run here and the first so many
  /// that run elsewhere: of higher priority before others, older before younger.
  std::vector<QueuedJob> queued(int limit);
  /// Ids of the first so many of the queue, also those that wait for their retry_time, in its
  /// order.
  std::vector<std::string> queue(int limit);
  /// Place in the queue; 1 is the head. NOT_FOUND.
  int queue_position(const std::string& id);
  /// Ids of the first so many of the queue of which something is still to be fetched.
  std::vector<std::string> to_fetch(int limit);
  /// Jobs that have not ended, oldest first.
  std::vector<v1::Job> unended();
  /// How far that is, while the job is QUEUED.
  void record_fetch(const std::string& id, const v1::Progress& progress);
  /// All of it is here: the job gets what `fetched` has of it and of memory, and its plan, and may
  /// be started. False if it has ended meanwhile.
  bool finish_fetch(const v1::Job& fetched, const std::string& plan);
  /// The job has FAILED, unless it has ended meanwhile.
  void fail_fetch(const std::string& id, const v1::JobError& error);
  /// Ended jobs whose ttl_seconds_after_finished are over.
  std::vector<std::string> expired(int limit);
  /// The attempt has made an output that is to be pushed: it is RUNNING, and has nothing of the
  /// machine any more. False if the job is not launched.
  bool begin_push(const std::string& id, int attempt);
  /// STARTING and RUNNING, oldest first.
  std::vector<v1::Job> launched();

  /// The job becomes STARTING with the next attempt number and these GPUs, unless it has ended or
  /// been cancelled meanwhile.
  std::optional<v1::Job> begin_attempt(const std::string& id, const std::string& token_sha256,
                                       const std::string& reason, const std::string& gpus = "");
  /// Why this attempt, which is launched, is to end from now on. The first reason stays, until the
  /// attempt has ended.
  void request_stop(const std::string& id, int attempt, const v1::JobError& reason);
  void finish(const std::string& id, const Outcome& outcome);
  /// A launched job becomes QUEUED again for another attempt, after `pause`. `started`: this one
  /// has had processes. False if it is being cancelled: then nothing changes.
  bool put_back(const std::string& id, const std::string& reason, std::chrono::milliseconds pause,
                bool started = true);

  /// The wall clock was set by so much: what waits for its retry_time waits no longer for that.
  void shift_retries(std::chrono::milliseconds jump);

  /// Empty if there is no such attempt.
  std::string token_sha256(const std::string& id, int attempt);
  /// Whether this attempt is to go on: no other one owns the job, which has not ended and is not
  /// being cancelled or stopped. NOT_FOUND.
  bool is_wanted(const std::string& id, int attempt);
  /// STARTING becomes RUNNING, unless this attempt is not wanted any more. NOT_FOUND.
  void confirm_running(const std::string& id, int attempt);
  void record_progress(const std::string& id, int attempt, const v1::Progress& progress);
  /// The first report of an attempt counts.
  void record_failure(const std::string& id, int attempt, const v1::JobError& error);
  std::optional<v1::JobError> reported_failure(const std::string& id, int attempt);

  /// Ended jobs of whose end somebody is to be told by now, the longest due ones first.
  std::vector<std::string> due_notifications(int limit);
  /// Stores the state of such a message. Does nothing if the job has been resumed or deleted
  /// meanwhile.
  void record_notification(const std::string& id, const v1::Notification& now);
  /// It is due again after `pause`, or never if nobody is to be told any more.
  void put_off_notification(const std::string& id, std::chrono::milliseconds pause);

  JobTotals totals();
  /// How many jobs there are in each state.
  std::map<v1::Job::State, int64_t> counts();
  /// When the job at the head of the queue was queued.
  std::optional<google::protobuf::Timestamp> head_queued_since();

  /// Why nothing can be stored at the moment; empty if it can.
  std::string fault();

  const ChangeSignal& changes() const { return changes_; }
  /// What has been committed of jobs since the start of the server.
  const RecentChanges& recent() const { return recent_; }

 private:
  /// Whether this attempt is the job's last one and may have processes.
  static bool is_launched_attempt(const v1::Job& job, int attempt);
  /// Progress of the job, and an event of it.
  void tell(JobRow& row, const v1::Progress& progress);
  /// As it is committed. NOT_FOUND.
  JobRow read(const std::string& id);
  /// In a transaction. NOT_FOUND.
  JobRow load(const std::string& id);
  std::optional<v1::Job> request_match(const std::string& request_id, const v1::JobSpec& spec,
                                       const std::string& owner, const v1::JobOptions& options,
                                       const std::optional<v1::SweepSpec>& sweep);
  void claim(int64_t number, const std::vector<PathClaim>& claims);
  void refuse_full_queue(const std::string& owner);
  /// An ended job is to be deleted when its time comes.
  void expire(const JobRow& row);
  /// Somebody is to be told of the end that the job has come to, if it asks for that; or of none.
  void notify(JobRow& row, bool ended);
  void append(JobRow& row, v1::Event event);
  void save(JobRow& row);
  /// The job changes its state, with an event.
  void enter(JobRow& row, v1::Job::State state, const std::string& reason);
  /// Runs `body` as one transaction under the lock, then tells of the change.
  void transact(const std::function<void()>& body);

  const int max_queued_;
  AcknowledgedJobs acknowledged_;
  std::mutex mutex_;
  JobTable table_;
  JobTotals totals_;
  JobTotals uncommitted_;  ///< of the transaction
  std::vector<RecentChange> uncommitted_changes_;
  std::mutex read_mutex_;
  JobTable reader_;  ///< sees what is committed; whoever reads waits for no commit
  std::mutex list_mutex_;
  JobTable lister_;  ///< for what reads many rows: heartbeats and GetJob do not wait for it
  RecentChanges recent_;
  ChangeSignal changes_;
};

}  // namespace dotresize
