#include "worker/transformer/stage/stage_transfers.h"

#include <ATen/ATen.h>

#include <utility>

namespace dotresize {

Incoming::Incoming(Communicator& comm, std::vector<Message> messages, at::Device device)
    : comm_(comm), messages_(std::move(messages)), device_(device) {
  post();
}

at::Tensor Incoming::take() {
  transfer_->wait();
  at::Tensor x = buffer_;
  post();
  return x;
}

void Incoming::begin_from(int rank) {
  if (transfer_ && messages_[next_ - 1].from == rank) transfer_->begin();
}

void Incoming::post() {
  transfer_.reset();
  if (next_ == messages_.size()) return;
  const Message& message = messages_[next_++];
  buffer_ = at::empty(message.shape, at::dtype(at::kFloat).device(device_));
  transfer_ = comm_.receive(buffer_, message.from);
}

void Outgoing::put(const at::Tensor& x) {
  drain();
  transfer = comm.send(x.contiguous(), to);
}

void Outgoing::drain() {
  if (transfer) transfer->wait();
  transfer.reset();
}

}  // namespace dotresize
