#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "base/process/mutex.h"
#include "base/process/work_budget.h"

namespace dotresize {

/// Memory and the right to compute for long, which all requests of the server share. Thread-safe.
class RequestResources {
 public:
  struct Limits {
    size_t memory = size_t{256} << 20;            ///< bytes of all requests together
    size_t memory_of_one = size_t{192} << 20;     ///< bytes of one request
    size_t computing = 2;                         ///< requests that compute for long, at once
    std::chrono::milliseconds short_time{100};    ///< processor time that every request may take
    std::chrono::milliseconds long_time{10'000};  ///< processor time of one request
    std::chrono::milliseconds patience{10'000};   ///< longest wait for what others have
  };

  /// The limits of the server.
  RequestResources();
  explicit RequestResources(const Limits& limits) : limits_(limits) {}

  /// Ends the requests that compute, now and later, with UNAVAILABLE.
  void stop();

  /// Frees the memory that a call has kept for its answer.
  void answered(const grpc::ServerContextBase* call);

 private:
  friend class RequestBudget;

  const Limits limits_;
  std::atomic<bool> stopping_ = false;
  Mutex mutex_;
  Condition freed_;
  size_t memory_ DOTRESIZE_GUARDED_BY(mutex_) = 0;  ///< bytes in use
  std::set<std::string> computing_
      DOTRESIZE_GUARDED_BY(mutex_);  ///< holders of requests that compute for long
  std::map<const grpc::ServerContextBase*, size_t> answers_
      DOTRESIZE_GUARDED_BY(mutex_);  ///< bytes of answers being sent
};

/// Budget of one request, on the thread that handles it. Every request has memory and processor
/// time; one that takes more than a little waits until it may compute beside the others, and one of
/// a holder at a time does. A request that exceeds its limits ends with RESOURCE_EXHAUSTED. One
/// whose caller is gone ends with CANCELLED.
class RequestBudget final : public WorkBudget {
 public:
  /// `holder`: name that computing requests are counted by. `call`: null outside gRPC.
  RequestBudget(RequestResources& resources, std::string holder,
                const grpc::ServerContextBase* call = nullptr);
  ~RequestBudget();

  /// Keeps the memory in use until RequestResources::answered(): the answer still needs it.
  void keep_for_answer();

 private:
  using Clock = std::chrono::steady_clock;

  void on_check() override;
  void on_use(std::size_t used) override;
  /// Throws if the request must end, whatever it has used.
  void refuse_pointless() const;
  /// Waits for the right to compute for long.
  void wait_to_compute();
  /// Waits until `is_met`, asked with the lock of the resources. Returns false if that takes too
  /// long.
  template <class IsMet>
  bool wait(Lock& lock, const IsMet& is_met) const DOTRESIZE_UNCHECKED_LOCKS;

  RequestResources& resources_;
  const std::string holder_;
  const grpc::ServerContextBase* const call_;
  Clock::time_point next_look_;
  std::chrono::nanoseconds begin_{-1};  ///< the thread's processor time at the first check
  bool computes_ = false;               ///< has the right to compute for long
  size_t taken_ = 0;                    ///< bytes of the resources that it has
};

/// Budget of work in the background, one such work after the other. Exceeding it throws
/// RESOURCE_EXHAUSTED.
class BackgroundBudget final : public WorkBudget {
 public:
  BackgroundBudget();

 private:
  void on_check() override;
  void on_use(std::size_t used) override;

  const std::chrono::nanoseconds end_;  ///< end, in the thread's processor time
};

}  // namespace dotresize
