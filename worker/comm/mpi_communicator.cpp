#include "worker/comm/mpi_communicator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>
#include <utility>

namespace dotresize {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTag = 1;
constexpr int64_t kMaxPieceBytes = int64_t{1} << 30;
constexpr int64_t kFragmentBytes = int64_t{32} << 10;
// A look is one poll of an operation (MPI_Test). It takes longer if it moves bytes, at least a
// fragment. The next fragment comes as soon as the other side has looked. So after such a look this
// rank looks again at once, this many times.
constexpr int kLooksAtOnce = 20;
constexpr double kLeastBytesPerSecond = 1e8;
constexpr int kLooksAfterPause = 3;  // the first of them is always slow
constexpr std::chrono::microseconds kLongestPause{1000};
// A rank that waits for a message looks at least once in the longest pause. A rank that has not
// looked for this long computes, and fetches the message later.
constexpr std::chrono::milliseconds kPeerLooksWithin{3};
// Some transports make looks slow even if nothing moves.
constexpr std::chrono::milliseconds kLongestStay{100};

/// Processor time of this thread.
std::chrono::nanoseconds processor_time() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void check(int code, const std::string& operation) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommunicationError(operation + ": " + std::string(text, static_cast<size_t>(length)));
}

MPI_Datatype reducible_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return MPI_DOUBLE;
    case at::kFloat:
      return MPI_FLOAT;
    case at::kLong:
      return MPI_INT64_T;
    default:
      throw std::logic_error(std::string("ranks cannot add up tensors of dtype ") +
                             at::toString(dtype));
  }
}

/// Calls piece(pointer, bytes) for consecutive parts of the tensor that MPI can move at once. An
/// empty tensor is one empty piece, so that both sides always exchange the same number of messages.
template <typename Piece>
void for_each_piece(const at::Tensor& tensor, const Piece& piece) {
  TORCH_INTERNAL_ASSERT(tensor.is_contiguous());
  auto* data = static_cast<char*>(tensor.data_ptr());
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  int64_t offset = 0;
  do {
    const int64_t length = std::min(kMaxPieceBytes, bytes - offset);
    piece(data + offset, static_cast<int>(length));
    offset += length;
  } while (offset < bytes);
}

/// Runs a collective operation: start(pointer, bytes, request) for one piece of the tensor at a
/// time. MPI moves a piece by fragments, each of which waits for a look of all sides. So the ranks
/// meet first, which takes one look, and then none of them pauses.
template <typename Start>
void complete(const MpiCommunicator& comm, const at::Tensor& tensor, const std::string& operation,
              const Start& start) {
  for_each_piece(tensor, [&](char* data, int bytes) {
    Clock::time_point pause_from = {};
    if (bytes > kFragmentBytes) {
      comm.meet(operation);
      // Time in which ranks that have met should move these bytes; after it they pause again.
      const std::chrono::duration<double> to_move(bytes / kLeastBytesPerSecond);
      pause_from = Clock::now() + (std::chrono::milliseconds(10) +
                                   std::chrono::duration_cast<Clock::duration>(to_move));
    }
    MPI_Request request;
    check(start(data, bytes, &request), operation);
    comm.wait(request, operation, tensor, pause_from);
  });
}

}  // namespace

/// A send or a receive, which begins with start().
class MpiTransfer final : public Transfer {
 public:
  MpiTransfer(MpiCommunicator& comm, at::Tensor tensor, std::string operation, bool is_send)
      : comm_(comm), tensor_(std::move(tensor)), operation_(std::move(operation)) {
    if (is_send) comm_.sends_.insert(this);
  }

  ~MpiTransfer() override {
    comm_.sends_.erase(this);
    if (!requests_.empty()) keep_forever(tensor_);
  }
  MpiTransfer(const MpiTransfer&) = delete;
  MpiTransfer& operator=(const MpiTransfer&) = delete;

  /// Calls start(pointer, bytes, request) for each piece of the tensor.
  template <typename Start>
  void start(const Start& start) {
    for_each_piece(tensor_, [&](char* data, int bytes) {
      MPI_Request request;
      check(start(data, bytes, &request), operation_);
      requests_.push_back(request);
    });
  }

  void wait() override {
    for (MPI_Request& request : requests_) comm_.wait(request, operation_, tensor_);
    requests_.clear();
    if (!comm_.sends_.contains(this)) comm_.see_off();
  }

  /// Returns true if all pieces have been sent or received.
  bool test() {
    int done = 0;
    check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done,
                      MPI_STATUSES_IGNORE),
          operation_);
    return done != 0;
  }

 private:
  MpiCommunicator& comm_;
  at::Tensor tensor_;  // keeps the memory alive while MPI uses it
  std::string operation_;
  std::vector<MPI_Request> requests_;
};

MpiCommunicator::MpiCommunicator(MPI_Comm parent, WaitLimit limit) : limit_(std::move(limit)) {
  check(MPI_Comm_dup(parent, &comm_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
}

MpiCommunicator::~MpiCommunicator() { MPI_Comm_free(&comm_); }

/// Uses processor time, because the thread may lose its core during a look. Looks that move nothing
/// take about as long as the shortest look. Looks that move bytes take more, but on a fast core
/// less than twice as long.
bool MpiCommunicator::has_moved(std::chrono::nanoseconds look) const {
  shortest_look_ = std::min(shortest_look_, look);
  return look > shortest_look_ * 3 / 2;
}

void MpiCommunicator::meet(const std::string& operation) const {
  MPI_Request request;
  check(MPI_Ibarrier(comm_, &request), operation);
  wait(request, operation, {});
}

void MpiCommunicator::wait(MPI_Request& request, const std::string& operation,
                           const at::Tensor& tensor, Clock::time_point pause_from) const {
  const Clock::time_point start = Clock::now();
  auto pause = std::chrono::microseconds(0);
  int at_once = kLooksAtOnce;
  bool after_pause = false;
  // Limit on the looks that may have moved bytes of the tensor: more than it has fragments, because
  // a rank may pass them on to others. On a busy machine, looks beyond it were slow without moving
  // bytes.
  constexpr int64_t kPassedOn = 8;
  constexpr int64_t kOthers = 1000;
  const size_t bytes = tensor.defined() ? tensor.nbytes() : 0;
  int64_t moves_left = kOthers + kPassedOn * static_cast<int64_t>(bytes) / kFragmentBytes;
  for (int done = 0;;) {
    const std::chrono::nanoseconds before_look = processor_time();
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), operation);
    if (done != 0) return;
    const bool moved = has_moved(processor_time() - before_look);
    if (!std::exchange(after_pause, false) && moved && moves_left > 0) {
      pause = std::chrono::microseconds(0);
      at_once = kLooksAtOnce;
      --moves_left;
    }
    if (const std::string reason = limit_(operation, start); !reason.empty()) {
      keep_forever(tensor);
      throw CommunicationError(std::string(operation).append(" ").append(reason));
    }
    if (at_once > 0 || Clock::now() < pause_from) {
      --at_once;
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    after_pause = true;
    at_once = kLooksAfterPause - 1;
    pause = std::min(pause + std::chrono::microseconds(20), kLongestPause);
  }
}

void MpiCommunicator::see_off() const {
  const Clock::time_point end = Clock::now() + kLongestStay;
  Clock::time_point moved = Clock::now();
  const auto all_gone = [&] {
    bool gone = true;
    for (MpiTransfer* send : sends_) gone = send->test() && gone;
    return gone;
  };
  while (Clock::now() < end) {
    const std::chrono::nanoseconds before_look = processor_time();
    if (all_gone()) return;
    if (has_moved(processor_time() - before_look)) moved = Clock::now();
    if (Clock::now() - moved > kPeerLooksWithin) return;
    std::this_thread::yield();
  }
}

void MpiCommunicator::broadcast(at::Tensor& tensor, int root) {
  complete(*this, tensor, "broadcast from rank " + std::to_string(root),
           [&](char* data, int bytes, MPI_Request* request) {
             return MPI_Ibcast(data, bytes, MPI_BYTE, root, comm_, request);
           });
}

void MpiCommunicator::reduce_sum(at::Tensor& tensor, int root) {
  const MPI_Datatype type = reducible_type(tensor.scalar_type());
  const auto element = static_cast<int>(tensor.element_size());
  const bool at_root = rank_ == root;
  complete(*this, tensor, "reduction to rank " + std::to_string(root),
           [&](char* data, int bytes, MPI_Request* request) {
             return MPI_Ireduce(at_root ? MPI_IN_PLACE : data, at_root ? data : nullptr,
                                bytes / element, type, MPI_SUM, root, comm_, request);
           });
}

void MpiCommunicator::all_reduce_sum(at::Tensor& tensor) {
  const MPI_Datatype type = reducible_type(tensor.scalar_type());
  const auto element = static_cast<int>(tensor.element_size());
  complete(
      *this, tensor, "reduction to all ranks", [&](char* data, int bytes, MPI_Request* request) {
        return MPI_Iallreduce(MPI_IN_PLACE, data, bytes / element, type, MPI_SUM, comm_, request);
      });
}

std::unique_ptr<Transfer> MpiCommunicator::send(const at::Tensor& tensor, int to) {
  auto transfer = std::make_unique<MpiTransfer>(*this, tensor, "send to rank " + std::to_string(to),
                                                /*is_send=*/true);
  transfer->start([&](char* data, int bytes, MPI_Request* request) {
    return MPI_Isend(data, bytes, MPI_BYTE, to, kTag, comm_, request);
  });
  return transfer;
}

std::unique_ptr<Transfer> MpiCommunicator::receive(at::Tensor& tensor, int from) {
  auto transfer = std::make_unique<MpiTransfer>(
      *this, tensor, "receive from rank " + std::to_string(from), /*is_send=*/false);
  transfer->start([&](char* data, int bytes, MPI_Request* request) {
    return MPI_Irecv(data, bytes, MPI_BYTE, from, kTag, comm_, request);
  });
  return transfer;
}

void MpiCommunicator::barrier() { meet("barrier"); }

}  // namespace dotresize
