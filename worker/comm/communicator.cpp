#include "worker/comm/communicator.h"

#include <ATen/ATen.h>

#include <cstring>
#include <utility>

namespace dotresize {
namespace {

at::Tensor length_tensor(int64_t length) { return at::full({1}, length, at::kLong); }

at::Tensor bytes_of(const std::string& text) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

std::string text_of(const at::Tensor& bytes) {
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())};
}

std::string receive_string(Communicator& comm, int from) {
  at::Tensor length = length_tensor(0);
  comm.receive(length, from)->wait();
  at::Tensor bytes = at::empty({length.item<int64_t>()}, at::kByte);
  comm.receive(bytes, from)->wait();
  return text_of(bytes);
}

void send_string(Communicator& comm, const std::string& text, int to) {
  comm.send(length_tensor(static_cast<int64_t>(text.size())), to)->wait();
  comm.send(bytes_of(text), to)->wait();
}

constexpr const char* kMoving = "communicate";
constexpr const char* kWaiting = "wait";

class TimedTransfer final : public Transfer {
 public:
  TimedTransfer(std::unique_ptr<Transfer> inner, PhaseClock& clock)
      : inner_(std::move(inner)), clock_(clock) {}

  void begin() override {
    const PhaseClock::Scope scope(clock_, kWaiting);
    inner_->begin();
  }
  void wait() override {
    const PhaseClock::Scope scope(clock_, kWaiting);
    inner_->wait();
  }

 private:
  std::unique_ptr<Transfer> inner_;
  PhaseClock& clock_;
};

}  // namespace

WaitLimit wait_at_most(std::chrono::seconds timeout) {
  return [timeout](const std::string&, std::chrono::steady_clock::time_point begun) -> std::string {
    if (std::chrono::steady_clock::now() - begun <= timeout) return "";
    return "did not complete within " + std::to_string(timeout.count()) +
           " s: a peer is gone or silent";
  };
}

void keep_forever(const at::Tensor& tensor) { new at::Tensor(tensor); }

std::unique_ptr<Transfer> SelfCommunicator::send(const at::Tensor&, int to) {
  throw std::logic_error("a single rank cannot send to rank " + std::to_string(to));
}

std::unique_ptr<Transfer> SelfCommunicator::receive(at::Tensor&, int from) {
  throw std::logic_error("a single rank cannot receive from rank " + std::to_string(from));
}

at::Tensor broadcast_tensor(Communicator& comm, const at::Tensor& owned, at::IntArrayRef shape,
                            const at::TensorOptions& options, int root) {
  at::Tensor tensor = comm.rank() == root ? owned.contiguous() : at::empty(shape, options);
  comm.broadcast(tensor, root);
  return tensor;
}

std::vector<int64_t> gather_numbers(Communicator& comm, int64_t mine) {
  at::Tensor numbers = at::zeros({comm.size()}, at::kLong);
  numbers[comm.rank()] = mine;
  comm.all_reduce_sum(numbers);
  const auto* data = numbers.const_data_ptr<int64_t>();
  return {data, data + comm.size()};
}

std::string broadcast_string(Communicator& comm, const std::string& text, int root) {
  at::Tensor length = length_tensor(static_cast<int64_t>(text.size()));
  comm.broadcast(length, root);
  at::Tensor bytes =
      comm.rank() == root ? bytes_of(text) : at::empty({length.item<int64_t>()}, at::kByte);
  comm.broadcast(bytes, root);
  return text_of(bytes);
}

std::vector<std::string> gather_strings(Communicator& comm, const std::string& text, int root) {
  if (comm.rank() != root) {
    send_string(comm, text, root);
    return {};
  }
  std::vector<std::string> texts(static_cast<size_t>(comm.size()));
  for (int rank = 0; rank < comm.size(); ++rank) {
    texts[static_cast<size_t>(rank)] = rank == root ? text : receive_string(comm, rank);
  }
  return texts;
}

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
