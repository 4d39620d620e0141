#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace dotresize {

/// A transfer under way. The tensor given to send or receive stays untouched until wait() returns.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual void wait() = 0;
};

/// What the schedules need of the ranks of a job. All calls take contiguous tensors and are made
/// from one thread; collectives are called by every rank in the same order with the same shapes and
/// dtypes. A call that does not complete within the deadline throws CommunicationError, naming rank
/// and operation; cancellation throws Cancelled.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void broadcast(at::Tensor& tensor, int root) = 0;
  /// The sum over ranks arrives at `root`; elsewhere the content is undefined afterwards.
  virtual void reduce_sum(at::Tensor& tensor, int root) = 0;
  virtual void all_reduce_sum(at::Tensor& tensor) = 0;
  virtual std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) = 0;
  virtual std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) = 0;
  virtual void barrier() = 0;
};

class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Strings of any length over the tensor operations above.
std::string broadcast_string(Communicator& comm, const std::string& text, int root);
/// At `root`: one string per rank, in rank order; elsewhere empty.
std::vector<std::string> gather_strings(Communicator& comm, const std::string& text, int root);

}  // namespace dotresize
