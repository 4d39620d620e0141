#include "server/launch/slurm/slurm_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/files/attempt_file.h"
#include "base/process/child_process.h"
#include "base/process/environment.h"
#include "base/text/checked_json.h"
#include "server/store/files.h"
#include "server/store/resources.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kMaxAnswer = 4096;
constexpr int64_t kMiB = int64_t{1} << 20;
// Memory of srun and slurmstepd, added to each rank's plan.
constexpr int64_t kStepMemory = 128 * kMiB;

/// The batch script. It is the same for every job; only its arguments differ.
constexpr char kScript[] = R"(#!/bin/bash
# By dotresize-server: FOLDER of the attempt, UMASK, 1 or 0 GPUs for each rank, then the command of a rank.
set -u
start=$1/start-${SLURM_RESTART_COUNT:-0}.json
umask "$2"
gpus=$3
shift 3
# Slurm may have queued the job again: the server makes an attempt of each start as soon as it has noticed.
for ((i = 0; i < 600; ++i)); do
  [[ ! -e $start ]] || break
  sleep 1
done
[[ -e $start ]] || { echo "no server has noticed this start of the job within ten minutes" >&2; exit 75; }
# Without PMIx each rank would compute alone, as the only one.
srun --mpi=list 2>&1 | grep -q pmix || { echo "this Slurm has no --mpi=pmix, which OpenMPI needs" >&2; exit 69; }
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
((gpus)) || export CUDA_VISIBLE_DEVICES=
# A GPU for each task is how they are allocated. srun would also hide the others from it, which NCCL must see: so
# each rank sees those of its node, and they take them in turn.
unset SLURM_GPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPU_BIND
exec srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" "$@" --attempt "$start"
)";

std::string name_of(const v1::Job& job, int submitted_by) {
  return fmt::format("{}{}-{}", kSlurmNamePrefix, job.id(), submitted_by);
}

/// Escapes "%": sbatch replaces %j and others in the log's name.
std::string without_patterns(const std::string& path) {
  std::string escaped;
  for (const char c : path) escaped += c == '%' ? "%%" : std::string(1, c);
  return escaped;
}

/// The environment of sbatch and thereby of the batch job: the variables that every job's ranks
/// get, Slurm's own configuration, and settings for messages over a network.
std::vector<std::string> batch_environment(const v1::Job& job) {
  constexpr std::array<std::string_view, 5> kPrefixes = {"SLURM_CONF=", "OMPI_MCA_", "PMIX_MCA_",
                                                         "UCX_", "NCCL_"};
  std::vector<std::string> variables = inherited_environment();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (std::ranges::any_of(kPrefixes, [&](auto prefix) { return text.starts_with(prefix); })) {
      variables.emplace_back(text);
    }
  }
  variables.push_back("DOTRESIZE_JOB_ID=" + job.id());
  if (job.has_traceparent()) variables.push_back("TRACEPARENT=" + job.traceparent());
  return variables;
}

UniqueFd create_file(const fs::path& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) throw_errno("cannot write " + path.string());
  return file;
}

std::string last_line_of(const fs::path& file) {
  std::string text = read_tail(file, 0, kMaxAnswer);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.find_last_of('\n') + 1);
}

}  // namespace

SlurmLauncher::SlurmLauncher(const LauncherContext& context)
    : state_(context.state),
      umask_(context.umask),
      server_(context.remote),
      options_(context.slurm),
      queue_(context.slurm.poll) {}

void SlurmLauncher::require_ready() const {
  worker_program();
  for (const char* program : {"sbatch", "squeue", "scancel"}) require_program(program);
}

std::vector<std::string> SlurmLauncher::sbatch_command(const v1::Job& job,
                                                       const fs::path& dir) const {
  const int ranks = ranks_of(job.spec());
  const int64_t cpu_memory = (job.memory_bytes() / ranks + kStepMemory) / options_.cpus;
  const bool gpus = job.spec().resources().device() == v1::Resources::cuda;
  std::vector<std::string> command = {"sbatch",
                                      "--parsable",
                                      "--job-name=" + name_of(job, job.attempt()),
                                      "--ntasks=" + std::to_string(ranks),
                                      "--cpus-per-task=" + std::to_string(options_.cpus),
                                      fmt::format("--mem-per-cpu={}M", cpu_memory / kMiB + 1),
                                      "--requeue",
                                      "--open-mode=append",
                                      "--output=" + without_patterns(state_.log(job.id()).string()),
                                      "--chdir=" + dir.string()};
  if (gpus) command.emplace_back("--gpus-per-task=1");  // each node gives as many as it has ranks
  command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
  command.insert(command.end(),
                 {(dir / "job.sh").string(), dir.string(), fmt::format("{:04o}", umask_),
                  gpus ? "1" : "0", worker_program().string(), "--work-dir",
                  state_.tokens().string(), state_.job_file(job.id()).string()});
  return command;
}

void SlurmLauncher::launch(const v1::Job& job, const std::string& token) {
  write_job_file(state_, job);
  const fs::path dir = state_.attempt(job.id(), job.attempt());
  fs::create_directory(dir);
  const UniqueFd lock = try_lock_file(dir / "lock");
  if (!lock) throw std::runtime_error(dir.string() + " is locked already");
  write_record(job, job.attempt(), job.attempt(), 0);
  write_attempt_file(start_file(job, {job.attempt(), 0, 0}), server_, job.id(), job.attempt(),
                     token);
  write_private_file(dir / "job.sh", kScript);
  const UniqueFd output = create_file(dir / "sbatch.out");
  const UniqueFd errors = create_file(dir / "sbatch.err");
  // sbatch goes on if this process is killed. A later server sees by the lock that it has ended.
  ChildProcess sbatch;
  sbatch.give_descriptor(lock.get(), kLockDescriptor);
  sbatch.give_descriptor(output.get(), STDOUT_FILENO);
  sbatch.give_descriptor(errors.get(), STDERR_FILENO);
  const std::vector<std::string> environment = batch_environment(job);
  children_.push_back(sbatch.run("sbatch", sbatch_command(job, dir), &environment));
}

AttemptStatus SlurmLauncher::check(const v1::Job& job) {
  reap();
  const std::optional<Record> record = record_of(job);
  if (!record) return {Liveness::kVanished, {}, /*ran=*/false};
  AttemptStatus unknown;
  unknown.liveness = job.state() == v1::Job::STARTING ? Liveness::kWaiting : Liveness::kAlive;
  const std::string name = name_of(job, record->submitted_by);
  if (!submitted_.contains(name)) {
    unknown.note = "sbatch has not answered yet";
    if (!try_lock_file(state_.attempt(job.id(), record->submitted_by) / "lock")) return unknown;
    submitted_.insert(name);
  }
  const SlurmQueue::Answer answer = queue_.find(name);
  const std::string fault = queue_.fault();
  if (answer.job) {
    AttemptStatus status = status_of(*answer.job, record->restart);
    if (!fault.empty()) status.note += "; no answer since: " + fault;
    return status;
  }
  if (answer.asked) return missing(job, *record);
  unknown.note = "Slurm has not answered yet" + (fault.empty() ? "" : ": " + fault);
  return unknown;
}

AttemptStatus SlurmLauncher::missing(const v1::Job& job, const Record& record) const {
  const fs::path dir = state_.attempt(job.id(), record.submitted_by);
  if (!last_line_of(dir / "sbatch.out").empty()) return {Liveness::kVanished, {}, /*ran=*/true};
  const std::string error = last_line_of(dir / "sbatch.err");
  if (error.empty()) return {Liveness::kVanished, {}, /*ran=*/false};
  AttemptStatus refused;
  refused.liveness = Liveness::kExited;
  refused.failure = submission_failure(error);
  return refused;
}

std::string SlurmLauncher::prepare_restart(const v1::Job& job) {
  const Record before = record_of(job).value();
  const auto found = queue_.find(name_of(job, before.submitted_by)).job;
  if (!found) throw std::runtime_error("Slurm does not know the job any more");
  const Record next = {before.submitted_by, found->restarts, 0};
  write_record(job, job.attempt() + 1, next.submitted_by, next.restart);
  const fs::path start = start_file(job, next);
  // A server that was killed here has left the file, and ranks may have read it.
  if (fs::exists(start)) return read_attempt_file(start).token;
  std::string token = make_attempt_token().secret;
  write_attempt_file(start, server_, job.id(), job.attempt() + 1, token);
  return token;
}

bool SlurmLauncher::stop(const v1::Job& job) {
  const std::optional<Record> record = record_of(job);
  if (!record) return false;
  const std::string name = name_of(job, record->submitted_by);
  // Slurm must not be queried before sbatch has ended: its answer would be out of date.
  if (!submitted_.contains(name)) return false;
  queue_.cancel(name);
  return true;
}

bool SlurmLauncher::clear_leftovers(const v1::Job&) { return true; }

void SlurmLauncher::clean_up(const v1::Job& job) {
  const std::optional<Record> record = record_of(job);
  if (!record) return;
  const std::string name = name_of(job, record->submitted_by);
  queue_.forget(name);
  submitted_.erase(name);
  std::erase_if(records_, [&](const auto& known) { return known.first.first == job.id(); });
  std::error_code error;
  for (int restart = 0; restart <= record->restart; ++restart) {
    fs::remove(start_file(job, {record->submitted_by, restart, 0}), error);
  }
}

std::string SlurmLauncher::log_tail(const v1::Job& job) {
  const std::optional<Record> record = record_of(job);
  return read_tail(state_.log(job.id()), record ? record->log_offset : 0, kLogTailBytes);
}

std::optional<SlurmLauncher::Record> SlurmLauncher::record_of(const v1::Job& job) {
  const auto known = records_.find({job.id(), job.attempt()});
  if (known != records_.end()) return known->second;
  const fs::path file = state_.attempt(job.id(), job.attempt()) / "slurm.json";
  const std::optional<std::string> text = read_file_start(file, kMaxAnswer);
  if (!text) return std::nullopt;
  try {
    const Json content = Json::parse(*text);
    const Record record = {content.at("submitted_by").get<int>(), content.at("restart").get<int>(),
                           content.at("log_offset").get<int64_t>()};
    return records_[{job.id(), job.attempt()}] = record;
  } catch (const Json::exception& error) {
    spdlog::error("{} is damaged, and taken for that of a first start: {}", file.string(),
                  json_fault(error));
    return records_[{job.id(), job.attempt()}] = Record{job.attempt(), 0, 0};
  }
}

void SlurmLauncher::write_record(const v1::Job& job, int attempt, int submitted_by,
                                 int restart) const {
  const fs::path dir = state_.attempt(job.id(), attempt);
  fs::create_directories(dir);
  std::error_code error;
  const auto size = fs::file_size(state_.log(job.id()), error);
  const Json content = {{"submitted_by", submitted_by},
                        {"restart", restart},
                        {"log_offset", error ? 0 : static_cast<int64_t>(size)}};
  write_private_file(dir / "slurm.json", content.dump() + "\n");
}

fs::path SlurmLauncher::start_file(const v1::Job& job, const Record& record) const {
  return state_.attempt(job.id(), record.submitted_by) /
         fmt::format("start-{}.json", record.restart);
}

void SlurmLauncher::reap() {
  std::erase_if(children_, [](pid_t pid) {
    const pid_t reaped = ::waitpid(pid, nullptr, WNOHANG);
    return reaped == pid || (reaped < 0 && errno == ECHILD);
  });
}

}  // namespace dotresize
