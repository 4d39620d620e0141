#pragma once

#include "base/phase_clock.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// Any communicator, with its time booked: as the phase "wait" in barriers and until a message of
/// another rank has come or gone, as "communicate" in collectives (which wait for the last rank
/// too).
class TimedCommunicator final : public Communicator {
 public:
  TimedCommunicator(Communicator& inner, PhaseClock& clock) : inner_(inner), clock_(clock) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void broadcast(at::Tensor& tensor, int root) override;
  void reduce_sum(at::Tensor& tensor, int root) override;
  void all_reduce_sum(at::Tensor& tensor) override;
  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) override;
  std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) override;
  void barrier() override;

 private:
  Communicator& inner_;
  PhaseClock& clock_;
};

}  // namespace dotresize
