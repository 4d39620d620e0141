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
    const Lock lock(mutex_);
    stop_.request_stop();
  }
  wake_.notify_all();
  thread_.join();
}

LauncherQueue::Standing LauncherQueue::follow(const std::string& name, const Order& order) {
  const Lock lock(mutex_);
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
  update(name, [this](Entry& entry) DOTRESIZE_REQUIRES(mutex_) {
    entry.order.unwanted = true;
    entry.cancel_pending = true;
    if (entry.standing.answer) entry.standing.over = false;  // until this cancel is answered too
    work_pending_ = true;
    pause_ = kFirstPause;
    wake_.notify_all();
  });
}

void LauncherQueue::forget(const std::string& name) {
  const Lock lock(mutex_);
  entries_.erase(name);
}

LauncherQueue::Faults LauncherQueue::faults() const {
  const Lock lock(mutex_);
  return faults_;
}

void LauncherQueue::update(const std::string& name, const std::function<void(Entry&)>& change) {
  const Lock lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry != entries_.end()) change(entry->second);
}

void LauncherQueue::loop() {
  bool needed = true;  // after a fault too: no job starts until the launcher answers
  Lock lock(mutex_);
  while (!stop_.stop_requested()) {
    needed = needed || !entries_.empty();
    work_pending_ = false;
    if (needed) {
      lock.unlock();
      Faults found;
      make_calls(found);
      try {
        if (!stop_.stop_requested()) look();
      } catch (const std::exception& error) {
        found.add(error.what(), /*holds=*/true);
      }
      lock.lock();
      needed = !found.last_round.empty();
      if (!stop_.stop_requested() && found.last_round != faults_.last_round) {
        pause_ = kFirstPause;
        if (needed) {
          spdlog::warn("launcher {} does not answer: {}", name_, found.last_round);
        } else {
          spdlog::info("launcher {} answers again", name_);
        }
      }
      if (!stop_.stop_requested()) faults_ = std::move(found);
    }
    // A failed call waits for the next round, whatever is pending.
    const std::chrono::seconds pause = std::exchange(pause_, std::min(2 * pause_, kLongestPause));
    wake_.wait_for(lock, pause, [&]() DOTRESIZE_REQUIRES(mutex_) {
      return stop_.stop_requested() || (work_pending_ && !needed);
    });
  }
}

void LauncherQueue::Faults::add(const std::string& what, bool holds) {
  const std::string line = printable(what, kMaxFault);
  if (last_round.empty()) last_round = line;
  if (holds && start.empty()) start = line;
}

void LauncherQueue::make_calls(Faults& faults) {
  std::vector<std::pair<std::string, Entry>> calls;
  {
    const Lock lock(mutex_);
    for (auto& [name, entry] : entries_) {
      const bool is_fresh = entry.phase == Phase::kFresh;
      const bool is_wanted = !entry.order.unwanted && (is_fresh || entry.phase == Phase::kTried);
      if (entry.cancel_pending && is_fresh) entry.standing.over = true;  // nobody knows it
      if (entry.standing.over || !(entry.cancel_pending || is_wanted)) continue;
      calls.emplace_back(name, entry);
    }
  }
  std::stable_partition(calls.begin(), calls.end(),
                        [](const auto& call) { return call.second.cancel_pending; });
  // When the calls have taken as long as one of them may, the round goes on to the status question,
  // and the next one begins behind the last call: none that hangs keeps another from its turn.
  const auto last = std::ranges::find(calls, last_, [](const auto& call) { return call.first; });
  if (last != calls.end()) std::rotate(calls.begin(), last + 1, calls.end());
  last_.clear();
  const auto end = std::chrono::steady_clock::now() + program_.limit;
  for (const auto& [name, entry] : calls) {
    if (stop_.stop_requested()) return;
    try {
      if (!entry.cancel_pending) {
        submit(name, entry.order);
      } else if (entry.phase == Phase::kSubmitted || try_lock_file(entry.order.lock)) {
        // Else a submission that has not ended could still land the attempt after the cancel.
        program_.cancel(name, entry.order.folder, stop_.get_token());
        update(name, [](Entry& known) {
          known.cancel_pending = false;
          known.cancelled = true;
        });
      }
    } catch (const std::exception& error) {
      faults.add(error.what(), !entry.cancel_pending);
    }
    if (std::chrono::steady_clock::now() < end) continue;
    last_ = name;
    return;
  }
}

void LauncherQueue::submit(const std::string& name, const Order& order) {
  const UniqueFd lock = try_lock_file(order.lock);
  if (!lock) return;  // a submission of an earlier server has not ended yet
  bool is_wanted = false;
  update(name, [&](Entry& entry) {
    is_wanted = !entry.order.unwanted;  // a cancel may have come during the calls before
    if (is_wanted) entry.phase = Phase::kTried;
  });
  if (!is_wanted) return;
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
    const Lock lock(mutex_);
    for (const auto& [name, entry] : entries_) {
      if (entry.phase != Phase::kFresh && !entry.standing.over) asked[name] = entry.order.folder;
    }
  }
  std::map<std::string, LauncherAnswer> answers = program_.status(asked, stop_.get_token());
  const Lock lock(mutex_);
  for (const auto& [name, folder] : asked) {
    const auto found = entries_.find(name);
    if (found == entries_.end()) continue;
    Entry& entry = found->second;
    const auto answer = answers.find(name);
    const std::optional<LauncherAnswer>& before = entry.standing.answer;
    const bool is_known = answer != answers.end();
    if (is_known != before.has_value() || (is_known && answer->second.state != before->state)) {
      pause_ = kFirstPause;
    }
    if (is_known) {
      entry.phase = Phase::kSubmitted;
      entry.standing.submitted = true;
      entry.standing.over = answer->second.state == LauncherAnswer::State::kEnded &&
                            entry.cancelled && !entry.cancel_pending;
      entry.standing.answer = std::move(answer->second);
    } else if (entry.phase == Phase::kSubmitted) {
      entry.standing.over = true;
    } else if (entry.order.unwanted) {
      entry.standing.over = entry.cancelled && !entry.cancel_pending;
    } else if (entry.phase == Phase::kFound) {
      entry.phase = Phase::kTried;
      work_pending_ = true;
    }
  }
}

}  // namespace dotresize
