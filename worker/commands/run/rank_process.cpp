#include "worker/commands/run/rank_process.h"

#include <ATen/Parallel.h>
#include <mpi.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "base/process/program.h"
#include "worker/comm/peer_sockets.h"

namespace dotresize {
namespace {

/// Ends the process: there is no way back into the code that reads the mapped file.
void end_by_bus_error(int) {
  constexpr char kReason[] =
      "dotresize-worker: error: a file that is being read, of a model or of the journal, has "
      "become shorter, or its disk cannot be read (SIGBUS)\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kReason, sizeof(kReason) - 1);
  ::_exit(kExitJobFailed);
}

}  // namespace

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

void StopSignals::watch(std::function<void()> clean_up) {
  std::thread([signals = signals_, clean_up = std::move(clean_up)] {
    int signal = 0;
    sigwait(&signals, &signal);
    clean_up();
    ::_exit(kExitCancelled);
  }).detach();
}

void die_with_launcher() {
  if (std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

MpiSession::MpiSession() {
  // The environment is read before MPI starts, which sets variables itself. An mpirun within an
  // allocation starts its daemons with srun.
  const char* by_srun = std::getenv("SLURM_STEP_NUM_TASKS");
  const bool by_mpirun = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  const std::string started = by_srun == nullptr || by_mpirun ? "" : by_srun;
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  std::signal(SIGBUS, end_by_bus_error);  // in place of MPI's, which prints a stack
  if (started.empty() || started == std::to_string(world_size())) return;
  const std::string size = std::to_string(world_size());
  MPI_Finalize();
  throw std::runtime_error("srun started " + started + " processes, but MPI knows of " + size +
                           ": srun needs --mpi=pmix");
}

MpiSession::~MpiSession() { MPI_Finalize(); }

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

HostRanks ranks_on_this_host() {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  HostRanks ranks;
  int size = 1;
  MPI_Comm_rank(host, &ranks.rank);
  MPI_Comm_size(host, &size);
  cpu_set_t mine;
  CPU_ZERO(&mine);
  ::sched_getaffinity(0, sizeof(mine), &mine);
  ranks.cores.resize(static_cast<size_t>(size));
  MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, ranks.cores.data(), sizeof(mine), MPI_BYTE, host);
  MPI_Comm_free(&host);
  return ranks;
}

int fair_share_of_cores(const HostRanks& ranks) {
  const cpu_set_t& mine = ranks.cores[static_cast<size_t>(ranks.rank)];
  double share = 1e-9;  // compensates for rounding of the sum
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mine) == 0) continue;
    share +=
        1.0 / static_cast<double>(std::ranges::count_if(
                  ranks.cores, [core](const cpu_set_t& cores) { return CPU_ISSET(core, &cores); }));
  }
  return std::max(1, static_cast<int>(share));
}

int usable_cores(const HostRanks& ranks) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return 0;
  return CPU_COUNT(&ranks.cores[static_cast<size_t>(ranks.rank)]);
}

void set_threads(const HostRanks& ranks) {
  at::set_num_interop_threads(1);
  if (usable_cores(ranks) > 0) at::set_num_threads(fair_share_of_cores(ranks));
}

RankLinks::RankLinks(Communicator& comm, const MakeTransport& transport, CudaModule* cuda,
                     HeartbeatOptions options) {
  if (comm.size() == 1) return;
  heartbeats_.emplace(open_peer_sockets(comm), std::move(options));
  heartbeats_->wait_for_peers();
  host_.emplace(MPI_COMM_WORLD, heartbeats_->wait_limit());
  if (!transport && cuda == nullptr) return;
  transport_ = transport ? transport(*host_, heartbeats_->wait_limit())
                         : cuda->make_communicator(*host_, heartbeats_->wait_limit());
  notes_.emplace(MPI_COMM_WORLD, heartbeats_->wait_limit());
  announced_ = std::make_unique<AnnouncedCommunicator>(*notes_, *transport_);
}

Communicator& RankLinks::comm() {
  if (announced_) return *announced_;
  if (host_) return *host_;
  return alone_;
}

}  // namespace dotresize
