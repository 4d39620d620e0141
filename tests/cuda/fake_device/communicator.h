#pragma once

#include "tests/comm/rendezvous_communicator.h"

namespace dotresize::fake_device {

/// NCCL's stream order over transfers that block. An operation has a stream of its own and comes
/// after all work of the stream that was current when it was requested. wait() makes the host wait
/// for it. Tensors on the CPU go through `host`.
class FakeNccl final : public Communicator {
 public:
  FakeNccl(Communicator& host, const WaitLimit& limit);

  void broadcast(at::Tensor& tensor, int root) override;
  void reduce_sum(at::Tensor& tensor, int root) override;
  void all_reduce_sum(at::Tensor& tensor) override;
  void barrier() override { host_.barrier(); }
  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) override;
  std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) override;

 private:
  Communicator& host_;
  testing::RendezvousCommunicator transport_;
  c10::Stream stream_;
};

}  // namespace dotresize::fake_device
