#include "tests/comm/rendezvous_communicator.h"

#include <c10/util/Exception.h>

#include <climits>
#include <functional>
#include <string>
#include <utility>

namespace dotresize::testing {
namespace {

constexpr int kTag = 1;

class Done final : public Transfer {
 public:
  void wait() override {}
};

/// Calls `run` once, in begin().
class Prepared final : public Transfer {
 public:
  explicit Prepared(std::function<void()> run) : run_(std::move(run)) {}
  void begin() override {
    if (run_) std::exchange(run_, nullptr)();
  }
  void wait() override { begin(); }

 private:
  std::function<void()> run_;
};

int bytes_of(const at::Tensor& tensor) {
  TORCH_INTERNAL_ASSERT(tensor.is_contiguous() && tensor.nbytes() <= INT_MAX);
  return static_cast<int>(tensor.nbytes());
}

}  // namespace

RendezvousCommunicator::RendezvousCommunicator(MPI_Comm parent, const WaitLimit& limit)
    : collectives_(parent, limit) {
  MPI_Comm_dup(parent, &transfers_);
  rank_ = collectives_.rank();
  size_ = collectives_.size();
}

RendezvousCommunicator::~RendezvousCommunicator() { MPI_Comm_free(&transfers_); }

std::unique_ptr<Transfer> RendezvousCommunicator::send(const at::Tensor& tensor, int to) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Issend(tensor.const_data_ptr(), bytes_of(tensor), MPI_BYTE, to, kTag, transfers_, &request);
  collectives_.wait(request, "send to rank " + std::to_string(to), tensor);
  return std::make_unique<Done>();
}

std::unique_ptr<Transfer> RendezvousCommunicator::receive(at::Tensor& tensor, int from) {
  return std::make_unique<Prepared>([this, tensor, from] {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(tensor.data_ptr(), bytes_of(tensor), MPI_BYTE, from, kTag, transfers_, &request);
    collectives_.wait(request, "receive from rank " + std::to_string(from), tensor);
  });
}

}  // namespace dotresize::testing
