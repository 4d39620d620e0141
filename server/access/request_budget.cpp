#include "server/access/request_budget.h"

#include <malloc.h>

#include <algorithm>
#include <ctime>
#include <thread>
#include <utility>

#include "base/process/mutex.h"
#include "server/common/api_error.h"

namespace dotresize {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Memory that a request has without asking; steps in which it asks for more.
constexpr size_t kFreeBytes = size_t{256} << 10;
constexpr size_t kGrantBytes = size_t{1} << 20;
constexpr size_t kBackgroundBytes = size_t{512} << 20;
constexpr milliseconds kBudgetLook{2};
constexpr milliseconds kBudgetWait{50};
constexpr std::chrono::seconds kBackgroundTime{5};

/// Processor time of this thread.
nanoseconds processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

/// Returns to the system what a request with so many bytes has freed. glibc would keep it for the
/// next large request of the same thread, and so for each of some hundred threads.
void return_memory(size_t bytes) {
  constexpr size_t kLeast = size_t{16} << 20;
  if (bytes >= kLeast) ::malloc_trim(0);
}

ApiError too_costly(const std::string& what) {
  return ApiError(grpc::StatusCode::RESOURCE_EXHAUSTED, "REQUEST_TOO_COSTLY",
                  "the request takes more " + what + " than this server has for one; a smaller " +
                      "model, fewer files or fewer combinations would do");
}

}  // namespace

RequestResources::RequestResources()
    : RequestResources(
          Limits{.computing = std::max(size_t{2}, size_t{std::thread::hardware_concurrency()})}) {}

void RequestResources::stop() {
  stopping_ = true;
  freed_.notify_all();
}

void RequestResources::answered(const grpc::ServerContextBase* call) {
  size_t bytes = 0;
  {
    const Lock lock(mutex_);
    const auto found = answers_.find(call);
    if (found == answers_.end()) return;
    bytes = found->second;
    memory_ -= bytes;
    answers_.erase(found);
    freed_.notify_all();
  }
  return_memory(bytes);
}

RequestBudget::RequestBudget(RequestResources& resources, std::string holder,
                             const grpc::ServerContextBase* call)
    : resources_(resources), holder_(std::move(holder)), call_(call) {}

RequestBudget::~RequestBudget() {
  if (taken_ == 0 && !computes_) return;
  {
    const Lock lock(resources_.mutex_);
    resources_.memory_ -= taken_;
    if (computes_) resources_.computing_.erase(holder_);
    resources_.freed_.notify_all();
  }
  return_memory(taken_);
}

void RequestBudget::keep_for_answer() {
  if (taken_ == 0 || call_ == nullptr) return;
  const Lock lock(resources_.mutex_);
  resources_.answers_[call_] += std::exchange(taken_, 0);
}

void RequestBudget::on_check() {
  const Clock::time_point now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kBudgetLook;
  refuse_pointless();
  const nanoseconds time = processor_time();
  if (begin_.count() < 0) begin_ = time;
  const RequestResources::Limits& limits = resources_.limits_;
  if (time - begin_ > limits.long_time) throw too_costly("processor time");
  if (time - begin_ > limits.short_time && !computes_) wait_to_compute();
}

void RequestBudget::on_use(size_t used) {
  const RequestResources::Limits& limits = resources_.limits_;
  if (used > limits.memory_of_one) throw too_costly("memory");
  if (used <= kFreeBytes + taken_) return;
  const size_t wanted = std::max(used - kFreeBytes - taken_, kGrantBytes);
  Lock lock(resources_.mutex_);
  if (!wait(lock, [&]() DOTRESIZE_REQUIRES(resources_.mutex_) {
        return resources_.memory_ + wanted <= limits.memory;
      })) {
    throw try_again(grpc::StatusCode::RESOURCE_EXHAUSTED, "SERVER_BUSY",
                    "other requests use the memory that this server has for them");
  }
  resources_.memory_ += wanted;
  taken_ += wanted;
}

void RequestBudget::refuse_pointless() const {
  if (resources_.stopping_) {
    throw try_again(grpc::StatusCode::UNAVAILABLE, "SERVER_STOPPING", "the server is stopping");
  }
  if (call_ != nullptr && is_cancelled(*call_)) {
    throw ApiError(grpc::StatusCode::CANCELLED, "CALLER_GONE", "the caller is gone");
  }
}

void RequestBudget::wait_to_compute() {
  Lock lock(resources_.mutex_);
  const auto may_compute = [&]() DOTRESIZE_REQUIRES(resources_.mutex_) {
    return resources_.computing_.size() < resources_.limits_.computing &&
           !resources_.computing_.contains(holder_);
  };
  if (!wait(lock, may_compute)) {
    throw try_again(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_CALLS",
                    "the server is working on other costly requests");
  }
  resources_.computing_.insert(holder_);
  computes_ = true;
}

template <class IsMet>
bool RequestBudget::wait(Lock& lock, const IsMet& is_met) const {
  const Clock::time_point end = Clock::now() + resources_.limits_.patience;
  while (!is_met()) {
    lock.unlock();
    refuse_pointless();  // asks gRPC, which may wait
    lock.lock();
    if (is_met()) return true;
    if (Clock::now() >= end) return false;
    resources_.freed_.wait_for(lock, kBudgetWait);
  }
  return true;
}

BackgroundBudget::BackgroundBudget() : end_(processor_time() + kBackgroundTime) {}

void BackgroundBudget::on_check() {
  if (processor_time() > end_) throw too_costly("processor time");
}

void BackgroundBudget::on_use(size_t used) {
  if (used > kBackgroundBytes) throw too_costly("memory");
}

}  // namespace dotresize
