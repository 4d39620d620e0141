#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/process/environment.h"
#include "base/process/program.h"
#include "job/plan/resolve/job_resources.h"
#include "worker/calibration/reason.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/comm/mpi_communicator.h"
#include "worker/commands/run/rank_process.h"
#include "worker/commands/worker_program.h"
#include "worker/cuda/self_test.h"

namespace dotresize {
namespace {

/// Limit of each wait for a rank that does not come or go on.
constexpr std::chrono::seconds kPatience{30};

void tell(const std::string& fault) {
  fmt::print(stderr, "dotresize-worker: error: rank {} on {}: {}\n", world_rank(), host_name(),
             fault);
}

void print_result(const SelfTestResult& result, const std::vector<std::string>& devices,
                  Dtype dtype, bool json) {
  if (!json) {
    fmt::print("{}; {}, {}\n", self_test_text(result), devices.front(), to_string(dtype));
    return;
  }
  const nlohmann::ordered_json document = {{"devices", devices},
                                           {"compute_dtype", to_string(dtype)},
                                           {"seconds", result.seconds},
                                           {"link_bytes_per_s", result.link_speeds}};
  fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

int self_test_command(std::optional<DeviceKind> asked, bool json, const MakeTransport& transport) {
  die_with_launcher();
  const MpiSession mpi;
  std::optional<RankLinks> links;  // must live while MPI is aborted, as in a job
  int exit_code = kExitJobFailed;
  try {
    const HostRanks ranks = ranks_on_this_host();
    set_threads(ranks);
    MpiCommunicator before(MPI_COMM_WORLD, wait_at_most(kPatience));
    const ChosenDevice device = choose_device(asked, before, ranks.rank);
    const Dtype dtype = device.cuda ? auto_gpu_dtype(device.least_capability) : Dtype::kFloat32;
    HeartbeatOptions heartbeats;
    heartbeats.timeout = kPatience;
    heartbeats.phase = [] { return std::string("self-test"); };
    heartbeats.on_silence = [](const std::string& silence) {
      tell(silence);
      ::_exit(kExitJobFailed);
    };
    links.emplace(before, transport, device.cuda, heartbeats);
    const SelfTestSubject subject = self_test_subject(device, scalar_type(dtype));
    const SelfTestResult result = self_test(subject, links->comm());
    const std::vector<std::string> devices = gather_strings(before, subject.name, 0);
    if (before.rank() == 0) print_result(result, devices, dtype, json);
    links->comm().barrier();
    return kExitOk;
  } catch (const InputError& error) {
    exit_code = kExitBadData;
    tell(error.what());
  } catch (const std::exception& error) {
    tell(reason_of(error));
  }
  if (world_size() > 1) MPI_Abort(MPI_COMM_WORLD, exit_code);
  return exit_code;
}

}  // namespace dotresize
