#include "server/launch/heartbeats.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>

namespace dotresize {
namespace {

constexpr std::chrono::seconds kStoreInterval{1};

}  // namespace

void Heartbeats::begin(const std::string& id) {
  const Lock lock(mutex_);
  entries_[id] = Entry{Clock::now(), {}, {}};
}

void Heartbeats::begin_all() {
  const Lock lock(mutex_);
  for (auto& [id, entry] : entries_) entry.heard = Clock::now();
}

void Heartbeats::forget(const std::string& id) {
  const Lock lock(mutex_);
  entries_.erase(id);
}

void Heartbeats::beat(const std::string& id) {
  const Lock lock(mutex_);
  const auto found = entries_.find(id);
  if (found != entries_.end()) found->second.heard = Clock::now();
}

bool Heartbeats::is_worth_storing(const std::string& id, const v1::Progress& progress) {
  const Lock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  Entry& entry = found->second;
  const Clock::time_point now = Clock::now();
  const bool is_new = !google::protobuf::util::MessageDifferencer::Equals(progress, entry.progress);
  const bool is_due =
      progress.phase() != entry.progress.phase() || now - entry.stored >= kStoreInterval;
  if (!is_new || !is_due) return false;
  entry.stored = now;
  entry.progress = progress;
  return true;
}

Heartbeats::Clock::duration Heartbeats::silence(const std::string& id) const {
  const Lock lock(mutex_);
  const auto found = entries_.find(id);
  return found == entries_.end() ? Clock::duration::zero() : Clock::now() - found->second.heard;
}

Heartbeats::Clock::duration Heartbeats::longest_silence() const {
  const Lock lock(mutex_);
  const Clock::time_point now = Clock::now();
  Clock::duration longest{0};
  for (const auto& [id, entry] : entries_) longest = std::max(longest, now - entry.heard);
  return longest;
}

}  // namespace dotresize
