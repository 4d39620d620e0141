#include "worker/comm/timed_communicator.h"

#include <utility>

namespace dotresize {
namespace {

constexpr const char* kMoving = "communicate";
constexpr const char* kWaiting = "wait";

class TimedTransfer final : public Transfer {
 public:
  TimedTransfer(std::unique_ptr<Transfer> inner, PhaseClock& clock)
      : inner_(std::move(inner)), clock_(clock) {}

  void wait() override {
    const PhaseClock::Scope scope(clock_, kWaiting);
    inner_->wait();
  }

 private:
  std::unique_ptr<Transfer> inner_;
  PhaseClock& clock_;
};

}  // namespace

void TimedCommunicator::broadcast(at::Tensor& tensor, int root) {
  const PhaseClock::Scope scope(clock_, kMoving);
  inner_.broadcast(tensor, root);
}

void TimedCommunicator::reduce_sum(at::Tensor& tensor, int root) {
  const PhaseClock::Scope scope(clock_, kMoving);
  inner_.reduce_sum(tensor, root);
}

void TimedCommunicator::all_reduce_sum(at::Tensor& tensor) {
  const PhaseClock::Scope scope(clock_, kMoving);
  inner_.all_reduce_sum(tensor);
}

std::unique_ptr<Transfer> TimedCommunicator::send(const at::Tensor& tensor, int to) {
  const PhaseClock::Scope scope(clock_, kMoving);
  return std::make_unique<TimedTransfer>(inner_.send(tensor, to), clock_);
}

std::unique_ptr<Transfer> TimedCommunicator::receive(at::Tensor& tensor, int from) {
  const PhaseClock::Scope scope(clock_, kMoving);
  return std::make_unique<TimedTransfer>(inner_.receive(tensor, from), clock_);
}

void TimedCommunicator::barrier() {
  const PhaseClock::Scope scope(clock_, kWaiting);
  inner_.barrier();
}

}  // namespace dotresize
