#include "server/launch/launcher_queue.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/text/printable.h"
#include "server/store/files.h"

namespace dotresize {
namespace {

constexpr size_t kMaxFault = 500;

}  // namespace

LauncherQueue::LauncherQueue(std::string name, LauncherProgram program)
    : name_(std::move(name)), program_(std::move(program)), thread_([this] { loop(); }) {}

LauncherQueue::~LauncherQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_.request_stop();
  }
  wake_.notify_all();
  thread_.join();
}

LauncherQueue::Standing LauncherQueue::follow(const std::string& name, const Order& order) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = entries_.try_emplace(name);
  Entry& entry = found->second;
  if (is_new) {
    entry.order = order;
    entry.phase = order.submitted ? Phase::kSubmitted : order.fresh ? Phase::kFresh : Phase::kFound;
    entry.standing.submitted = order.submitted;
    entry.cancel_pending = order.unwanted;
    work_pending_ = true;
    pause_ = kFirstPause;
    wake_.notify_all();
  }
  return entry.standing;
}

void LauncherQueue::cancel(const std::string& name) {
  update(name, [this](Entry& entry) {
    entry.order.unwanted = true;
    entry.cancel_pending = true;
    if (entry.standing.answer) entry.standing.over = false;  // until this cancel is answered too
    work_pending_ = true;
    pause_ = kFirstPause;
    wake_.notify_all();
  });
}

void LauncherQueue::forget(const std::string& name) {
  const std::lock_guard lock(mutex_);
  entries_.erase(name);
}

std::string LauncherQueue::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

template <class Change>
void LauncherQueue::update(const std::string& name, const Change& change) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry != entries_.end()) change(entry->second);
}

void LauncherQueue::loop() {
  bool needed = true;  // after a fault too: no job starts until the launcher answers
  std::unique_lock lock(mutex_);
  while (!stop_.stop_requested()) {
    needed = needed || !entries_.empty();
    work_pending_ = false;
    lock.unlock();
    if (needed) {
      const std::string fault = ask();
      needed = !fault.empty();
      if (!stop_.stop_requested()) set_fault(fault);
    }
    lock.lock();
    // A failed call waits for the next round, whatever is pending.
    const std::chrono::seconds pause = std::exchange(pause_, std::min(2 * pause_, kLongestPause));
    wake_.wait_for(lock, pause,
                   [&] { return stop_.stop_requested() || (work_pending_ && !needed); });
  }
}

std::string LauncherQueue::ask() {
  std::string fault;
  bool late = false;
  cancel_unwanted(fault, late);
  submit_wanted(fault, late);
  guarded(fault, late, [&] { look(); });
  return fault;
}

template <class Call>
void LauncherQueue::guarded(std::string& fault, bool& late, const Call& call) {
  if (late || stop_.stop_requested()) return;
  try {
    call();
  } catch (const LauncherFault& error) {
    late = error.late;
    if (fault.empty()) fault = error.what();
  } catch (const std::exception& error) {
    if (fault.empty()) fault = error.what();
  }
}

void LauncherQueue::cancel_unwanted(std::string& fault, bool& late) {
  std::map<std::string, Entry> unwanted;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [name, entry] : entries_) {
      if (!entry.cancel_pending || entry.standing.over) continue;
      if (entry.phase == Phase::kFresh) {
        entry.standing.over = true;
      } else {
        unwanted[name] = entry;
      }
    }
  }
  for (const auto& attempt : unwanted) {
    guarded(fault, late, [&] {
      const Order& order = attempt.second.order;
      // A submission that has not ended could still land the attempt after the cancel.
      if (attempt.second.phase != Phase::kSubmitted && !try_lock_file(order.lock)) return;
      program_.cancel(attempt.first, order.folder, stop_.get_token());
      update(attempt.first, [](Entry& entry) {
        entry.cancel_pending = false;
        entry.cancelled = true;
      });
    });
  }
}

void LauncherQueue::submit_wanted(std::string& fault, bool& late) {
  std::map<std::string, Order> wanted;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [name, entry] : entries_) {
      const bool pending = entry.phase == Phase::kFresh || entry.phase == Phase::kTried;
      if (!pending || entry.order.unwanted || entry.standing.over) continue;
      wanted[name] = entry.order;
      entry.phase = Phase::kTried;
    }
  }
  for (const auto& attempt : wanted) {
    guarded(fault, late, [&] { submit(attempt.first, attempt.second); });
  }
}

void LauncherQueue::submit(const std::string& name, const Order& order) {
  const UniqueFd lock = try_lock_file(order.lock);
  if (!lock) return;  // a submission of an earlier server has not ended yet
  try {
    program_.submit(order.request, lock.get(), stop_.get_token());
    update(name, [](Entry& entry) {
      entry.phase = Phase::kSubmitted;
      entry.standing.submitted = true;
    });
  } catch (const LauncherRefusal& refusal) {
    update(name, [&](Entry& entry) {
      entry.standing.refusal = refusal.what();
      entry.standing.over = true;
    });
  }
}

void LauncherQueue::look() {
  std::map<std::string, std::filesystem::path> asked;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, entry] : entries_) {
      if (entry.phase != Phase::kFresh && !entry.standing.over) asked[name] = entry.order.folder;
    }
  }
  std::map<std::string, LauncherAnswer> answers = program_.status(asked, stop_.get_token());
  for (const auto& [name, folder] : asked) {
    const auto answer = answers.find(name);
    update(name, [&](Entry& entry) {
      take(entry, answer == answers.end() ? std::nullopt : std::optional(answer->second));
    });
  }
}

void LauncherQueue::take(Entry& entry, std::optional<LauncherAnswer> answer) {
  const std::optional<LauncherAnswer>& before = entry.standing.answer;
  if (answer.has_value() != before.has_value() || (answer && answer->state != before->state)) {
    pause_ = kFirstPause;
  }
  if (answer) {
    entry.phase = Phase::kSubmitted;
    entry.standing.submitted = true;
    entry.standing.over =
        answer->state == LauncherAnswer::State::kEnded && entry.cancelled && !entry.cancel_pending;
    entry.standing.answer = std::move(answer);
  } else if (entry.phase == Phase::kSubmitted) {
    entry.standing.over = true;
  } else if (entry.order.unwanted) {
    entry.standing.over = entry.cancelled && !entry.cancel_pending;
  } else if (entry.phase == Phase::kFound) {
    entry.phase = Phase::kTried;
    work_pending_ = true;
  }
}

void LauncherQueue::set_fault(const std::string& fault) {
  const std::string line = printable(fault, kMaxFault);
  const std::lock_guard lock(mutex_);
  if (line == fault_) return;
  fault_ = line;
  pause_ = kFirstPause;
  if (fault_.empty()) {
    spdlog::info("launcher {} answers again", name_);
  } else {
    spdlog::warn("launcher {} does not answer: {}", name_, fault_);
  }
}

}  // namespace dotresize
