#include "job/sweep/sweep_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <system_error>
#include <thread>

#include "base/errors.h"
#include "base/files/confinement.h"
#include "base/files/directory.h"
#include "base/files/durable_file.h"
#include "base/files/file_changes.h"
#include "base/files/input_file.h"
#include "base/files/partial_path.h"
#include "base/phase_clock.h"
#include "base/process/child_pool.h"
#include "base/process/child_process.h"
#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/process/rank_start.h"
#include "base/text/encodings.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/plan/resolved_job.h"
#include "job/spec/job_file.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;
using Variant = v1::SweepResults::Variant;

constexpr size_t kLongestReason = 500;  // characters

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

/// Opens the sweep's directory, locks it against other sweeps while the result is open, and marks
/// it as its owner's.
PinnedDirectory open_sweep_directory(const fs::path& dir, const OutputRights& rights) {
  const auto refuse = [&](const std::string& what) {
    throw InputError("output.path", dir.string() + " " + what);
  };
  PinnedDirectory opened(Confinement::of_process().make_directories(dir));
  if (!opened) refuse("cannot be made: " + std::generic_category().message(errno));
  const fs::path place = opened.path();
  const std::string fault = sweep_directory_fault(place);
  if (!fault.empty()) refuse(fault);
  if (::flock(opened.descriptor(), LOCK_EX | LOCK_NB) != 0) refuse("belongs to a running sweep");
  const std::optional<OutputOwner> mark = read_output_owner(place);
  if (!fs::is_empty(place) && !rights.cover(mark)) {
    refuse(ownership_fault(mark.value_or(OutputOwner{}).name));
  }
  if (!rights.owner.job_id.empty()) write_output_owner(place, rights.owner);
  files::create_directory(place / kSweepVariants);
  files::create_directory(place / kSweepStatistics);
  return opened;
}

std::chrono::seconds idle_limit_of(const v1::JobSpec& spec) {
  return std::chrono::seconds(spec.resources().has_timeout_s() ? spec.resources().timeout_s()
                                                               : JobResources().timeout_s);
}

/// Removes a model. It is renamed first, so that a model under its own name is always complete.
void remove_model(const VariantPaths& at) {
  files::remove_all(at.removed);
  if (fs::exists(at.model)) files::rename(at.model, at.removed);
  files::remove_all(at.removed);
}

class SweepRun {
 public:
  SweepRun(const SweepPlan& plan, const SweepRunOptions& options, std::vector<SweepRow>& rows,
           SweepObserver& observer)
      : plan_(plan),
        rows_(rows),
        at_once_(jobs_at_once(plan, options)),
        shared_memory_(options.shared_memory),
        rights_(options.rights),
        observer_(observer) {}

  int run();

 private:
  struct Running {
    Clock::time_point start;
    bool saves = false;
  };
  /// Seconds that jobs have taken. They are kept apart for jobs that save statistics, which take
  /// longer.
  struct Times {
    double sum = 0.0;
    int count = 0;
  };

  /// Paths for the job's own process and for people.
  VariantPaths paths(const std::string& id) const {
    return {plan_.directory / kSweepVariants / id};
  }
  /// Paths by descriptor, for this process. They lead below the opened directory and through no
  /// link, whatever has its name now.
  VariantPaths held(const std::string& id) const {
    return {directory_.path() / kSweepVariants / id};
  }
  fs::path statistics_of(size_t i) const {
    return plan_.directory / kSweepStatistics / plan_.jobs[i].statistics;
  }
  fs::path dense_loss_of(size_t i) const {
    return plan_.directory / (plan_.jobs[i].dense_loss + ".json");
  }
  /// Looks for one of these below the opened directory.
  bool exists(const fs::path& named) const {
    return fs::exists(directory_.path() / named.lexically_relative(plan_.directory));
  }
  template <class Same>
  bool another_runs(const Same& same) const {
    return std::ranges::any_of(running_, [&](const auto& entry) { return same(entry.first); });
  }

  void find_pending();
  bool can_start(size_t i) const;
  bool lacks_statistics(size_t i) const {
    return !plan_.jobs[i].statistics.empty() && !exists(statistics_of(i));
  }
  /// Returns true if the job will save its statistics. A job does not save under a name that
  /// promises more sums than it takes.
  bool saves(size_t i) const {
    return lacks_statistics(i) && plan_.jobs[i].sums == plan_.jobs[i].shared_sums;
  }
  void start(size_t i);
  /// Clears the job's directory and writes its job file.
  void prepare(size_t i, bool saving);
  void end(const ChildPool::Ended& ended);
  /// Ends a job whose failure is `fault`, or whose report is in its row.
  void settle(size_t i, const std::string& fault, double seconds);
  /// Keeps the report of a job whose model is complete, and updates its row. Returns the reason if
  /// the report is unusable, else "".
  std::string keep_report(size_t i);
  /// Removes the models that must not be kept.
  void thin_out();
  void show();
  double seconds_left() const;

  const SweepPlan& plan_;
  std::vector<SweepRow>& rows_;
  int at_once_;
  fs::path shared_memory_;
  OutputRights rights_;
  SweepObserver& observer_;
  PinnedDirectory directory_;
  std::vector<bool> pending_;
  std::map<size_t, Running> running_;
  Times saving_, using_;
  std::unique_ptr<ChildPool> pool_;
};

/// Finds the jobs to run. A job is done once its report is kept. If there is only its model, the
/// sweep was interrupted just before that.
void SweepRun::find_pending() {
  pending_.assign(plan_.jobs.size(), false);
  for (size_t i = 0; i < plan_.jobs.size(); ++i) {
    const VariantPaths at = held(plan_.jobs[i].id);
    std::error_code left_behind;
    files::remove_all(at.removed, left_behind);
    if (rows_[i].state != Variant::done && fs::exists(at.model)) keep_report(i);
    const bool lacks_model = plan_.file.keep == KeptModels::kAll && rows_[i].model.empty();
    pending_[i] = rows_[i].state != Variant::done || lacks_model;
  }
  compare_rows(plan_, rows_);
}

bool SweepRun::can_start(size_t i) const {
  if (!pending_[i]) return false;
  const bool evaluates = !exists(dense_loss_of(i));
  if (evaluates && another_runs([&](size_t other) {
        return plan_.jobs[other].dense_loss == plan_.jobs[i].dense_loss;
      })) {
    return false;
  }
  if (!lacks_statistics(i)) return true;
  const auto same = [&](size_t other) {
    return plan_.jobs[other].statistics == plan_.jobs[i].statistics;
  };
  if (another_runs(same)) return false;
  if (saves(i)) return true;
  // Waits for a job with costs. If all of those have failed, the job runs without shared
  // statistics.
  for (size_t other = 0; other < plan_.jobs.size(); ++other) {
    if (pending_[other] && same(other) && saves(other)) return false;
  }
  return true;
}

void SweepRun::prepare(size_t i, bool saving) {
  const VariantPaths at = held(plan_.jobs[i].id);
  files::create_directory(at.dir);
  files::remove(at.log);
  remove_model(at);  // left by a run that ended before its report was kept
  v1::JobSpec spec = plan_.jobs[i].spec;
  if (saving) {
    spec.mutable_calibration()->mutable_statistics()->set_save(statistics_of(i));
  } else if (!plan_.jobs[i].statistics.empty() && !lacks_statistics(i)) {
    spec.mutable_calibration()->mutable_statistics()->set_use(statistics_of(i));
  }
  write_file_atomically(at.job, job_spec_to_json(spec));
}

void SweepRun::start(size_t i) {
  const bool saving = saves(i);
  const bool awaited = saving || !exists(dense_loss_of(i));  // other jobs wait for this one
  pending_[i] = false;
  try {
    prepare(i, saving);
  } catch (const std::exception& error) {  // a link in the way, or a full disk
    return settle(i, printable(error.what(), kLongestReason), 0.0);
  }
  const int threads = std::max(1, cores() / (plan_.jobs[i].ranks * (awaited ? 1 : at_once_)));
  // Threads that a rank of this job would use if it ran alone (fair_share_of_cores in the worker,
  // without binding to cores): eigensolvers round differently with another number.
  const auto asked = parse_number<int>(environment_variable("OMP_NUM_THREADS"));
  const int threads_alone =
      asked.value_or(0) > 0 ? *asked : std::max(1, cores() / plan_.jobs[i].ranks);
  std::vector<std::string> command = {"env", fmt::format("OMP_NUM_THREADS={}", threads)};
  for (const std::string& word :
       launch_command(plan_.jobs[i].ranks, shared_memory_,
                      {worker_program(), paths(plan_.jobs[i].id).job, "--work-dir", plan_.directory,
                       "--dense-loss", dense_loss_of(i), "--decomposition-threads",
                       std::to_string(threads_alone), "--held", plan_.directory,
                       path_for_others(directory_.descriptor())})) {
    command.push_back(word);
  }
  // The ranks of a job watch each other; nobody watches a single one.
  std::optional<std::chrono::seconds> idle_limit;
  if (plan_.jobs[i].ranks == 1) idle_limit = idle_limit_of(plan_.jobs[i].spec);
  pool_->start(i, command, held(plan_.jobs[i].id).log, idle_limit);
  running_[i] = {Clock::now(), saving};
}

std::string SweepRun::keep_report(size_t i) {
  const VariantPaths at = held(plan_.jobs[i].id);
  const fs::path report = fs::path(kReportDirectory) / kReportFile;
  try {
    const ReportSummary summary = read_report_summary(at.model);
    if (!summary.dense.perplexity || !summary.compressed.perplexity) {
      return "its report has no perplexities";
    }
    files::create_directory(at.dir / kReportDirectory);
    write_file_atomically(at.dir / report, read_whole_file(at.model / report, kMaxReportBytes));
    rows_[i].report = summary;
  } catch (const InputError& error) {
    return error.what();
  }
  rows_[i].state = Variant::done;
  rows_[i].reason.clear();
  rows_[i].model = paths(plan_.jobs[i].id).model;
  return "";
}

void SweepRun::thin_out() {
  if (plan_.file.keep == KeptModels::kAll) return;
  for (SweepRow& row : rows_) {
    if (row.model.empty() || (plan_.file.keep == KeptModels::kBest && row.best)) continue;
    remove_model(held(row.id));
    row.model.clear();
  }
}

void SweepRun::end(const ChildPool::Ended& ended) {
  const size_t i = ended.number;
  const Running was = running_.at(i);
  running_.erase(i);
  if (pool_->stopped()) return;
  const double seconds = seconds_since(was.start);
  Times& times = was.saves ? saving_ : using_;
  times.sum += seconds;
  ++times.count;
  std::string fault;
  if (ended.exit_code == kExitOk) {
    fault = keep_report(i);
  } else if (ended.hung) {
    fault = fmt::format(
        "it has used no processor for {} s (resources.timeout_s) and was ended: it was stopped, or "
        "a file system does not answer",
        idle_limit_of(plan_.jobs[i].spec).count());
  } else {
    const fs::path log = paths(plan_.jobs[i].id).log;
    fault = failure_in(held(plan_.jobs[i].id).log);
    if (fault.empty())
      fault = fmt::format("exit code {}; its log: {}", ended.exit_code, log.string());
    fault = printable(fault, kLongestReason);
  }
  settle(i, fault, seconds);
}

void SweepRun::settle(size_t i, const std::string& fault, double seconds) {
  SweepRow& row = rows_[i];
  std::string result;
  if (fault.empty()) {
    result = fmt::format("perplexity {}", format_perplexity(*row.report->compressed.perplexity));
  } else {
    row.state = Variant::failed;
    row.report.reset();  // left by an earlier run whose model is gone
    row.reason = fault;
    result = "failed: " + row.reason;
  }
  compare_rows(plan_, rows_);
  thin_out();
  write_results(directory_.path(), plan_, rows_);
  observer_.print(fmt::format("{}  {}  {}", plan_.jobs[i].id, result, format_duration(seconds)));
}

double SweepRun::seconds_left() const {
  if (saving_.count + using_.count == 0) return -1.0;
  const auto mean = [](const Times& times, const Times& else_of) {
    const Times& known = times.count > 0 ? times : else_of;
    return known.sum / known.count;
  };
  double left = 0.0;
  for (size_t i = 0; i < plan_.jobs.size(); ++i) {
    if (pending_[i]) left += saves(i) ? mean(saving_, using_) : mean(using_, saving_);
  }
  for (const auto& [i, running] : running_) {
    const double whole = running.saves ? mean(saving_, using_) : mean(using_, saving_);
    left += std::max(0.0, whole - seconds_since(running.start));
  }
  return left / at_once_;
}

void SweepRun::show() {
  const auto done = std::ranges::count_if(rows_, [](const SweepRow& row) {
    return row.state == Variant::done || row.state == Variant::failed;
  });
  v1::Progress progress;
  progress.set_phase(fmt::format("{} of {} jobs", done, plan_.jobs.size()));
  progress.set_fraction(static_cast<double>(done) / static_cast<double>(plan_.jobs.size()));
  progress.set_eta_s(seconds_left());
  observer_.show(progress);
}

int SweepRun::run() {
  int ranks = 1;
  for (const SweepJob& job : plan_.jobs) ranks = std::max(ranks, job.ranks);
  require_rank_start(ranks);
  const SharedMemoryFolder own(shared_memory_.empty() ? ranks : 1);
  if (!own.path().empty()) shared_memory_ = own.path();
  directory_ = open_sweep_directory(plan_.directory, rights_);
  find_pending();
  write_results(directory_.path(), plan_, rows_);
  if (plan_.file.keep != KeptModels::kAll) thin_out();
  pool_ = std::make_unique<ChildPool>();
  const auto lacks_model = [&](const SweepRow& row) {
    return plan_.file.keep == KeptModels::kBest && row.best && row.model.empty() &&
           row.state == Variant::done;
  };
  for (bool more = true; more && !pool_->stopped();) {
    show();
    const auto is_pending = [](bool each) { return each; };
    while (!pool_->stopped() &&
           (pool_->running() > 0 || std::ranges::any_of(pending_, is_pending))) {
      for (size_t i = 0; i < plan_.jobs.size(); ++i) {
        if (pool_->running() >= static_cast<size_t>(at_once_)) break;
        if (can_start(i)) start(i);
      }
      if (const auto ended = pool_->wait(std::chrono::milliseconds(200))) {
        end(*ended);
        show();
      } else {
        observer_.tick();
      }
    }
    // Runs a best job again if an earlier sweep with another `keep` has removed its model.
    more = false;
    for (size_t i = 0; i < plan_.jobs.size() && !pool_->stopped(); ++i) {
      if (!lacks_model(rows_[i])) continue;
      pending_[i] = more = true;
    }
  }
  while (pool_->running() > 0) pool_->wait(std::chrono::seconds(1));
  write_results(directory_.path(), plan_, rows_);
  if (pool_->stopped()) return kExitCancelled;
  const bool failed =
      std::ranges::any_of(rows_, [](const SweepRow& row) { return row.state == Variant::failed; });
  return failed ? kExitJobFailed : kExitOk;
}

}  // namespace

int jobs_at_once(const SweepPlan& plan, const SweepRunOptions& options) {
  int64_t memory = 1;
  int ranks = 1;
  bool gpus = false;
  for (const SweepJob& job : plan.jobs) {
    memory = std::max(memory, job.memory_bytes);
    ranks = std::max(ranks, job.ranks);
    gpus = gpus || job.on_gpus;
  }
  gpus = gpus && options.gpus.value_or(sees_gpus());
  if (gpus && options.at_once > 1) {
    throw InputError("--parallel", "on GPUs the jobs of a sweep run one after the other");
  }
  if (gpus) return 1;
  const int64_t jobs = std::max<int64_t>(1, std::ssize(plan.jobs));
  if (options.at_once > 0) return static_cast<int>(std::min<int64_t>(options.at_once, jobs));
  const int64_t fit = std::min<int64_t>(cores() / ranks, usable_memory_bytes() / memory);
  return static_cast<int>(std::clamp<int64_t>(fit, 1, std::min<int64_t>(cores(), jobs)));
}

std::string sweep_directory_fault(const fs::path& dir) {
  std::error_code error;
  if (fs::is_directory(dir / kSweepVariants, error) || fs::is_empty(dir, error)) return "";
  // A sweep that was killed at its start has left its owner's mark alone.
  const auto is_mark = [](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with(kOwnerOfOutput);
  };
  if (!error && std::ranges::all_of(entries_of(dir, error), is_mark)) return "";
  if (error) return "cannot be read: " + error.message();
  return "is not empty, and no sweep of dotresize has made it; choose another path";
}

int run_sweep(const SweepPlan& plan, const SweepRunOptions& options, std::vector<SweepRow>& rows,
              SweepObserver& observer) {
  return SweepRun(plan, options, rows, observer).run();
}

}  // namespace dotresize
