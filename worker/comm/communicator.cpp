#include "worker/comm/communicator.h"

#include <ATen/ATen.h>

#include <cstring>
#include <utility>

namespace dotresize {
namespace {

at::Tensor bytes_of(const std::string& text) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

constexpr const char* kMoving = "communicate";
constexpr const char* kWaiting = "wait";

/// A transfer in two steps.
class StepwiseTransfer final : public Transfer {
 public:
  StepwiseTransfer(std::function<void()> begin, std::function<void()> wait)
      : begin_(std::move(begin)), wait_(std::move(wait)) {}

  void begin() override { begin_(); }
  void wait() override { wait_(); }

 private:
  std::function<void()> begin_;
  std::function<void()> wait_;
};

/// Books the time of the transfer's steps.
std::unique_ptr<Transfer> timed(std::shared_ptr<Transfer> transfer, PhaseClock& clock) {
  return std::make_unique<StepwiseTransfer>(
      [transfer, &clock] {
        const PhaseClock::Scope scope(clock, kWaiting);
        transfer->begin();
      },
      [transfer, &clock] {
        const PhaseClock::Scope scope(clock, kWaiting);
        transfer->wait();
      });
}

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
  at::Tensor length = at::full({1}, static_cast<int64_t>(text.size()), at::kLong);
  comm.broadcast(length, root);
  at::Tensor bytes =
      comm.rank() == root ? bytes_of(text) : at::empty({length.item<int64_t>()}, at::kByte);
  comm.broadcast(bytes, root);
  return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()};
}

std::vector<std::string> gather_strings(Communicator& comm, const std::string& text, int root) {
  if (comm.rank() != root) {
    comm.send(at::full({1}, static_cast<int64_t>(text.size()), at::kLong), root)->wait();
    comm.send(bytes_of(text), root)->wait();
    return {};
  }
  std::vector<std::string> texts(static_cast<size_t>(comm.size()));
  for (int rank = 0; rank < comm.size(); ++rank) {
    std::string& received = texts[static_cast<size_t>(rank)];
    if (rank == root) {
      received = text;
      continue;
    }
    at::Tensor length = at::zeros({1}, at::kLong);
    comm.receive(length, rank)->wait();
    at::Tensor bytes = at::empty({length.item<int64_t>()}, at::kByte);
    comm.receive(bytes, rank)->wait();
    received.assign(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
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
  return timed(inner_.send(tensor, to), clock_);
}

std::unique_ptr<Transfer> TimedCommunicator::receive(at::Tensor& tensor, int from) {
  const PhaseClock::Scope scope(clock_, kMoving);
  return timed(inner_.receive(tensor, from), clock_);
}

void TimedCommunicator::barrier() {
  const PhaseClock::Scope scope(clock_, kWaiting);
  inner_.barrier();
}

std::unique_ptr<Transfer> AnnouncedCommunicator::send(const at::Tensor& tensor, int to) {
  const std::shared_ptr<Transfer> note = notes_.send(at::zeros({1}, at::kByte), to);
  const std::shared_ptr<Transfer> sent = inner_.send(tensor, to);
  return std::make_unique<StepwiseTransfer>([] {},  // it has begun
                                            [note, sent] {
                                              note->wait();
                                              sent->wait();
                                            });
}

std::unique_ptr<Transfer> AnnouncedCommunicator::receive(at::Tensor& tensor, int from) {
  const std::shared_ptr<Transfer> received = inner_.receive(tensor, from);
  const auto begin = [&notes = notes_, from, received, begun = std::make_shared<bool>(false)] {
    if (std::exchange(*begun, true)) return;
    at::Tensor note = at::zeros({1}, at::kByte);
    notes.receive(note, from)->wait();
    received->begin();
  };
  return std::make_unique<StepwiseTransfer>(begin, [begin, received] {
    begin();
    received->wait();
  });
}

}  // namespace dotresize
