#include "worker/comm/announced_communicator.h"

#include <ATen/ATen.h>

#include <utility>

namespace dotresize {
namespace {

at::Tensor empty_note() { return at::zeros({1}, at::kByte); }

class AnnouncedSend final : public Transfer {
 public:
  AnnouncedSend(std::unique_ptr<Transfer> note, std::unique_ptr<Transfer> inner)
      : note_(std::move(note)), inner_(std::move(inner)) {}

  void wait() override {
    note_->wait();
    inner_->wait();
  }

 private:
  std::unique_ptr<Transfer> note_;
  std::unique_ptr<Transfer> inner_;
};

class AnnouncedReceive final : public Transfer {
 public:
  AnnouncedReceive(Communicator& notes, int from, std::unique_ptr<Transfer> inner)
      : notes_(notes), from_(from), inner_(std::move(inner)) {}

  void begin() override {
    if (std::exchange(begun_, true)) return;
    at::Tensor note = empty_note();
    notes_.receive(note, from_)->wait();
    inner_->begin();
  }
  void wait() override {
    begin();
    inner_->wait();
  }

 private:
  Communicator& notes_;
  int from_;
  std::unique_ptr<Transfer> inner_;
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<Transfer> AnnouncedCommunicator::send(const at::Tensor& tensor, int to) {
  std::unique_ptr<Transfer> note = notes_.send(empty_note(), to);
  return std::make_unique<AnnouncedSend>(std::move(note), inner_.send(tensor, to));
}

std::unique_ptr<Transfer> AnnouncedCommunicator::receive(at::Tensor& tensor, int from) {
  return std::make_unique<AnnouncedReceive>(notes_, from, inner_.receive(tensor, from));
}

}  // namespace dotresize
