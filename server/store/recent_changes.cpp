#include "server/store/recent_changes.h"

#include <utility>

namespace dotresize {

v1::Job basic_view(v1::Job job) {
  std::string name = std::move(*job.mutable_spec()->mutable_name());
  job.mutable_spec()->Clear();
  job.mutable_spec()->set_name(std::move(name));
  if (job.has_sweep()) job.mutable_sweep()->Clear();
  return job;
}

int64_t RecentChanges::last() const {
  const Lock lock(mutex_);
  return last_;
}

void RecentChanges::add(std::vector<RecentChange> changes) {
  const Lock lock(mutex_);
  for (RecentChange& change : changes) {
    change.sequence = ++last_;
    const size_t bytes = sizeof(Entry) + change.job->SpaceUsedLong();
    bytes_ += bytes;
    entries_.push_back({std::move(change), bytes});
  }
  while (entries_.size() > kMaxChanges || bytes_ > kMaxBytes) {
    bytes_ -= entries_.front().bytes;
    entries_.pop_front();
  }
}

std::optional<std::vector<RecentChange>> RecentChanges::after(int64_t sequence,
                                                              size_t limit) const {
  const Lock lock(mutex_);
  const int64_t dropped = last_ - std::ssize(entries_);  // number of changes no longer kept
  if (sequence < dropped || sequence > last_) return std::nullopt;
  const auto first = entries_.begin() + (sequence - dropped);
  std::vector<RecentChange> changes;
  for (auto at = first; at != entries_.end() && changes.size() < limit; ++at) {
    changes.push_back(at->change);
  }
  return changes;
}

}  // namespace dotresize
