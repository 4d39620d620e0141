#include "worker/cuda/nccl_communicator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "base/process/environment.h"

namespace dotresize {
namespace {

using Clock = std::chrono::steady_clock;
using Event = std::shared_ptr<CUevent_st>;

constexpr std::chrono::microseconds kMaxPause(500);
/// Multiprocessors that a pipeline transfer may occupy. It spins on them until its peer joins. A
/// single one moves a microbatch's 64 MiB in milliseconds, while a stage computes for most of a
/// second.
constexpr int kTransferCtas = 1;
/// Multiprocessors of a collective, for which the ranks wait: this many saturate a link between
/// GPUs.
constexpr int kCollectiveCtas = 4;
constexpr std::chrono::seconds kPatienceWithAbort(3);

void check_cuda(cudaError_t result, const std::string& operation) {
  if (result == cudaSuccess) return;
  throw CommunicationError(operation + ": " + cudaGetErrorString(result));
}

/// Records an event on the stream, after everything queued there.
Event record(cudaStream_t stream, const std::string& operation) {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), operation);
  Event owner(event, [](cudaEvent_t recorded) { cudaEventDestroy(recorded); });
  check_cuda(cudaEventRecord(event, stream), operation);
  return owner;
}

ncclDataType_t reducible_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return ncclFloat64;
    case at::kFloat:
      return ncclFloat32;
    case at::kLong:
      return ncclInt64;
    default:
      throw std::logic_error(std::string("ranks cannot add up tensors of dtype ") +
                             at::toString(dtype));
  }
}

class NcclTransfer final : public Transfer {
 public:
  /// Begins after all work of PyTorch's current stream. Every rank skips empty tensors.
  NcclTransfer(NcclChannel& channel, std::string operation, at::Tensor tensor,
               NcclChannel::Call call)
      : channel_(channel),
        operation_(std::move(operation)),
        tensor_(std::move(tensor)),
        call_(tensor_.numel() == 0 ? nullptr : std::move(call)),
        ready_(record(c10::cuda::getCurrentCUDAStream(), operation_)) {
    TORCH_INTERNAL_ASSERT(tensor_.is_contiguous());
  }

  ~NcclTransfer() override {
    if (done_) keep_forever(tensor_);
  }
  NcclTransfer(const NcclTransfer&) = delete;
  NcclTransfer& operator=(const NcclTransfer&) = delete;

  void begin() override {
    if (call_) done_ = channel_.start(operation_, ready_, std::exchange(call_, nullptr));
  }
  void wait() override {
    begin();
    if (done_) channel_.wait(operation_, ready_, done_);
    done_.reset();
  }

 private:
  NcclChannel& channel_;
  std::string operation_;
  at::Tensor tensor_;
  NcclChannel::Call call_;  ///< empty once begun
  Event ready_;
  Event done_;
};

ncclUniqueId share_id(Communicator& host) {
  ncclUniqueId id{};
  if (host.rank() == 0) {
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
      throw CommunicationError(std::string("NCCL does not start: ") + ncclGetErrorString(result) +
                               ": " + ncclGetLastError(nullptr));
    }
  }
  const std::string bytes =
      broadcast_string(host, std::string(id.internal, sizeof(id.internal)), 0);
  std::memcpy(id.internal, bytes.data(), sizeof(id.internal));
  return id;
}

}  // namespace

NcclChannel::NcclChannel(const ncclUniqueId& id, int ranks, int rank, int max_ctas, WaitLimit limit)
    : limit_(std::move(limit)), stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true)) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = max_ctas;
  settle("start of NCCL", ncclCommInitRankConfig(&comm_, ranks, id, rank, &config));
}

NcclChannel::~NcclChannel() {
  try {
    if (std::uncaught_exceptions() == 0) {
      check_usable("end of NCCL");
      settle("end of NCCL", ncclCommFinalize(comm_));
      ncclCommDestroy(comm_);
      return;
    }
  } catch (const CommunicationError&) {
    // The job's results do not depend on the end of NCCL.
  }
  // ncclCommAbort may wait for peers, so this returns after kPatienceWithAbort. On an H200 with
  // NCCL 2.28.9, after a transfer that was given up, one of two ranks did not end, most likely
  // here.
  auto aborted = std::make_shared<std::promise<void>>();
  std::thread([comm = comm_, aborted] {
    ncclCommAbort(comm);
    aborted->set_value();
  }).detach();
  aborted->get_future().wait_for(kPatienceWithAbort);
}

void NcclChannel::give_up(const std::string& operation, const std::string& reason) {
  failed_ = true;
  throw CommunicationError(operation + " " + reason);
}

void NcclChannel::check_usable(const std::string& operation) const {
  if (failed_) throw CommunicationError(operation + ": NCCL was given up before");
}

void NcclChannel::pause(const std::string& operation, Clock::time_point start,
                        std::chrono::microseconds& length) {
  if (const std::string reason = limit_(operation, start); !reason.empty()) {
    give_up(operation, reason);
  }
  std::this_thread::sleep_for(length);
  length = std::min(length + std::chrono::microseconds(10), kMaxPause);
}

void NcclChannel::settle(const std::string& operation, ncclResult_t result) {
  const Clock::time_point start = Clock::now();
  std::chrono::microseconds length{0};
  while (result == ncclInProgress) {
    pause(operation, start, length);
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
    result = asked == ncclSuccess ? state : asked;
  }
  if (result == ncclSuccess) return;
  give_up(operation, std::string("failed in NCCL: ") + ncclGetErrorString(result) + ": " +
                         ncclGetLastError(comm_));
}

std::shared_ptr<CUevent_st> NcclChannel::start(const std::string& operation, const Event& ready,
                                               const Call& call) {
  check_usable(operation);
  check_cuda(cudaStreamWaitEvent(stream_, ready.get(), 0), operation);
  settle(operation, call(comm_, stream_));
  return record(stream_, operation);
}

bool NcclChannel::is_done(const std::string& operation, const Event& event) {
  const cudaError_t state = cudaEventQuery(event.get());
  if (state == cudaSuccess) return true;
  if (state != cudaErrorNotReady) {
    give_up(operation, std::string("failed: ") + cudaGetErrorString(state));
  }
  cudaGetLastError();  // otherwise the next check of a launch would find "not ready"
  return false;
}

void NcclChannel::wait(const std::string& operation, const Event& ready, const Event& done) {
  check_usable(operation);
  Clock::time_point start = Clock::now();
  std::chrono::microseconds length{0};
  for (;;) {
    if (is_done(operation, done)) return;
    // The wait so far was for this rank's own GPU, from now on for peers.
    if (!is_done(operation, ready)) start = Clock::now();
    ncclResult_t error = ncclSuccess;
    ncclCommGetAsyncError(comm_, &error);
    if (error != ncclSuccess && error != ncclInProgress) settle(operation, error);
    pause(operation, start, length);
  }
}

NcclCommunicator::NcclCommunicator(Communicator& host, const WaitLimit& limit)
    : Communicator(host.rank(), host.size()), host_(host) {
  if (ranks_share_gpus()) {
    ::setenv("NCCL_HOSTID", ("rank " + std::to_string(rank())).c_str(), /*overwrite=*/0);
  }
  const auto start = [&](int max_ctas) {
    return std::make_unique<NcclChannel>(share_id(host), host.size(), host.rank(), max_ctas, limit);
  };
  try {
    for (std::unique_ptr<NcclChannel>& channel : transfers_) channel = start(kTransferCtas);
    collectives_ = start(kCollectiveCtas);
    connect_neighbours();
  } catch (...) {
    for (std::unique_ptr<NcclChannel>& channel : transfers_) static_cast<void>(channel.release());
    static_cast<void>(collectives_.release());
    throw;
  }
}

/// Connects neighbours. Even ranks send on one channel, odd ranks on the other.
void NcclCommunicator::connect_neighbours() {
  std::vector<int> neighbours;
  if (rank() > 0) neighbours.push_back(rank() - 1);
  if (rank() + 1 < size()) neighbours.push_back(rank() + 1);
  const at::Tensor bytes = at::zeros({2}, at::dtype(at::kByte).device(at::kCUDA));
  auto* data = static_cast<char*>(bytes.data_ptr());
  for (int sender = 0; sender < 2 && !neighbours.empty(); ++sender) {
    const bool sends = rank() % 2 == sender;
    NcclTransfer(channel_of_sender(sender), "connection to the neighbours", bytes,
                 [&](ncclComm_t comm, cudaStream_t stream) {
                   ncclGroupStart();
                   for (size_t i = 0; i < neighbours.size(); ++i) {
                     sends ? ncclSend(data + i, 1, ncclInt8, neighbours[i], comm, stream)
                           : ncclRecv(data + i, 1, ncclInt8, neighbours[i], comm, stream);
                   }
                   return ncclGroupEnd();  // returns the error of a call in the group
                 })
        .wait();
  }
}

void NcclCommunicator::broadcast(at::Tensor& tensor, int root) {
  if (!tensor.is_cuda()) return host_.broadcast(tensor, root);
  const std::string operation = "broadcast from rank " + std::to_string(root);
  NcclTransfer(*collectives_, operation, tensor, [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclBroadcast(tensor.data_ptr(), tensor.data_ptr(), tensor.nbytes(), ncclInt8, root,
                         comm, stream);
  }).wait();
}

void NcclCommunicator::reduce_sum(at::Tensor& tensor, int root) {
  if (!tensor.is_cuda()) return host_.reduce_sum(tensor, root);
  const ncclDataType_t type = reducible_type(tensor.scalar_type());
  const std::string operation = "reduction to rank " + std::to_string(root);
  NcclTransfer(*collectives_, operation, tensor, [&](ncclComm_t comm, cudaStream_t stream) {
    // NCCL does not write the result buffers of other ranks.
    return ncclReduce(tensor.data_ptr(), tensor.data_ptr(), static_cast<size_t>(tensor.numel()),
                      type, ncclSum, root, comm, stream);
  }).wait();
}

void NcclCommunicator::all_reduce_sum(at::Tensor& tensor) {
  if (!tensor.is_cuda()) return host_.all_reduce_sum(tensor);
  const ncclDataType_t type = reducible_type(tensor.scalar_type());
  NcclTransfer(*collectives_, "reduction to all ranks", tensor,
               [&](ncclComm_t comm, cudaStream_t stream) {
                 return ncclAllReduce(tensor.data_ptr(), tensor.data_ptr(),
                                      static_cast<size_t>(tensor.numel()), type, ncclSum, comm,
                                      stream);
               })
      .wait();
}

std::unique_ptr<Transfer> NcclCommunicator::send(const at::Tensor& tensor, int to) {
  if (!tensor.is_cuda()) return host_.send(tensor, to);
  auto transfer = std::make_unique<NcclTransfer>(
      channel_of_sender(rank()), "send to rank " + std::to_string(to), tensor,
      [tensor, to](ncclComm_t comm, cudaStream_t stream) {
        return ncclSend(tensor.const_data_ptr(), tensor.nbytes(), ncclInt8, to, comm, stream);
      });
  transfer->begin();
  return transfer;
}

std::unique_ptr<Transfer> NcclCommunicator::receive(at::Tensor& tensor, int from) {
  if (!tensor.is_cuda()) return host_.receive(tensor, from);
  return std::make_unique<NcclTransfer>(
      channel_of_sender(from), "receive from rank " + std::to_string(from), tensor,
      [tensor, from](ncclComm_t comm, cudaStream_t stream) {
        return ncclRecv(tensor.data_ptr(), tensor.nbytes(), ncclInt8, from, comm, stream);
      });
}

}  // namespace dotresize
