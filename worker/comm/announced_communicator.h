#pragma once

#include "worker/comm/communicator.h"

namespace dotresize {

/// A communicator that makes blocking transfers (NCCL's, which block until both ranks have begun
/// them) safe for schedules that receive ahead. A send is announced to the receiver's host first,
/// and a receive begins once the announcement has come. So nothing waits on a device for a peer
/// that has not begun to send. Transfers between two ranks begin in the order of the sends.
class AnnouncedCommunicator final : public Communicator {
 public:
  /// `notes` carries only the announcements, as tensors on the CPU. Both must outlive this object.
  AnnouncedCommunicator(Communicator& notes, Communicator& inner) : notes_(notes), inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void broadcast(at::Tensor& tensor, int root) override { inner_.broadcast(tensor, root); }
  void reduce_sum(at::Tensor& tensor, int root) override { inner_.reduce_sum(tensor, root); }
  void all_reduce_sum(at::Tensor& tensor) override { inner_.all_reduce_sum(tensor); }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) override;
  std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) override;

 private:
  Communicator& notes_;
  Communicator& inner_;
};

}  // namespace dotresize
