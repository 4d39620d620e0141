#include "tests/cuda/fake_device/communicator.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>
#include <string>
#include <utility>

#include "tests/cuda/fake_device/memory.h"
#include "tests/cuda/fake_device/streams.h"

namespace dotresize::fake_device {
namespace {

c10::Stream new_stream() {
  const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
  return guard.getStreamFromGlobalPool(guard.getDevice());
}

/// An operation of the channel, ordered after the current stream's work up to now.
class Queued {
 public:
  Queued(std::string name, const at::Tensor& tensor, c10::Stream channel)
      : name_(std::move(name)),
        tensor_(tensor),
        channel_(name_of(channel)),
        ready_(Order::get().record(current_stream(tensor.get_device()))) {}

  void begin(bool writes) {
    Order::get().block(channel_, ready_);
    operation_.emplace(name_, channel_);
    writes ? operation_->writes(tensor_) : operation_->reads(tensor_);
  }
  void wait() const { operation_->synchronize(); }
  bool begun() const { return operation_.has_value(); }

 private:
  std::string name_;
  at::Tensor tensor_;
  StreamName channel_;
  Clock ready_;
  std::optional<Operation> operation_;
};

class FakeTransfer final : public Transfer {
 public:
  FakeTransfer(Queued queued, bool writes, std::unique_ptr<Transfer> transfer)
      : queued_(std::move(queued)), writes_(writes), transfer_(std::move(transfer)) {}
  void begin() override {
    if (queued_.begun()) return;
    queued_.begin(writes_);
    transfer_->begin();
  }
  void wait() override {
    begin();
    transfer_->wait();
    queued_.wait();
  }

 private:
  Queued queued_;
  bool writes_;
  std::unique_ptr<Transfer> transfer_;
};

template <class Collective>
void run_to_end(Queued queued, bool writes, const Collective& collective) {
  queued.begin(writes);
  collective();
  queued.wait();
}

}  // namespace

FakeNccl::FakeNccl(Communicator& host, const WaitLimit& limit)
    : Communicator(host.rank(), host.size()),
      host_(host),
      transport_(MPI_COMM_WORLD, limit),
      stream_(new_stream()) {}

void FakeNccl::broadcast(at::Tensor& tensor, int root) {
  if (!tensor.is_cuda()) return host_.broadcast(tensor, root);
  at::Tensor bytes = alias_on_cpu(tensor);
  run_to_end({"broadcast", tensor, stream_}, /*writes=*/rank() != root,
             [&] { transport_.broadcast(bytes, root); });
}

void FakeNccl::reduce_sum(at::Tensor& tensor, int root) {
  if (!tensor.is_cuda()) return host_.reduce_sum(tensor, root);
  at::Tensor numbers = alias_on_cpu(tensor);
  run_to_end({"reduction", tensor, stream_}, /*writes=*/rank() == root,
             [&] { transport_.reduce_sum(numbers, root); });
}

void FakeNccl::all_reduce_sum(at::Tensor& tensor) {
  if (!tensor.is_cuda()) return host_.all_reduce_sum(tensor);
  at::Tensor numbers = alias_on_cpu(tensor);
  run_to_end({"reduction to all ranks", tensor, stream_}, /*writes=*/true,
             [&] { transport_.all_reduce_sum(numbers); });
}

std::unique_ptr<Transfer> FakeNccl::send(const at::Tensor& tensor, int to) {
  if (!tensor.is_cuda()) return host_.send(tensor, to);
  Queued queued("send to rank " + std::to_string(to), tensor, stream_);
  queued.begin(/*writes=*/false);
  return std::make_unique<FakeTransfer>(std::move(queued), false,
                                        transport_.send(alias_on_cpu(tensor), to));
}

std::unique_ptr<Transfer> FakeNccl::receive(at::Tensor& tensor, int from) {
  if (!tensor.is_cuda()) return host_.receive(tensor, from);
  at::Tensor bytes = alias_on_cpu(tensor);
  return std::make_unique<FakeTransfer>(
      Queued("receive from rank " + std::to_string(from), tensor, stream_), true,
      transport_.receive(bytes, from));
}

}  // namespace dotresize::fake_device
