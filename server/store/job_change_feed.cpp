#include "server/store/job_change_feed.h"

#include <cstddef>
#include <optional>
#include <utility>

namespace dotresize {
namespace {

// Maximum of changes, or listed jobs, that are read at once.
constexpr int kChangesAtOnce = 64;

}  // namespace

JobChangeFeed::JobChangeFeed(JobStore& store, const v1::WatchJobsRequest& request)
    : store_(store), filter_(request.filter()), query_(query_of(filter_)) {
  query_.limit = kChangesAtOnce;
  if (request.cursor().empty()) return;
  const WatchPosition position = read_cursor(request.cursor(), filter_);
  if (position.epoch != store_.recent().epoch()) return;
  seen_ = position.sequence;
  listing_ = false;
}

void JobChangeFeed::read(std::deque<v1::JobChange>& messages) {
  while (messages.empty()) {
    if (!listing_ || query_.before > 0) {
      const auto changes = store_.recent().after(seen_, kChangesAtOnce);
      if (!changes) {  // the client is too slow: a new listing begins
        listing_ = true;
        query_.before = 0;
        continue;
      }
      add(*changes, messages);
      if (changes->size() == kChangesAtOnce) continue;  // there may be more
    }
    if (!listing_) return;
    JobListing listing = store_.listing(query_);
    if (query_.before == 0) {
      add(v1::JobChange::LISTING, messages);
    } else {
      const auto changes =
          store_.recent().after(seen_, static_cast<size_t>(listing.last_change - seen_));
      if (!changes) {
        query_.before = 0;
        continue;
      }
      add(*changes, messages);
    }
    seen_ = listing.last_change;
    for (v1::Job& job : listing.page.jobs) {
      *add(v1::JobChange::LISTED, messages).mutable_job() = basic_view(std::move(job));
    }
    query_.before = listing.page.next_before;
    if (query_.before > 0) continue;
    listing_ = false;
    add(v1::JobChange::SYNCED, messages);
  }
}

void JobChangeFeed::add(const std::vector<RecentChange>& changes,
                        std::deque<v1::JobChange>& messages) {
  for (const RecentChange& change : changes) {
    seen_ = change.sequence;
    if (listing_ && change.number < query_.before) continue;  // will be listed later
    if (!matches(query_, *change.job)) continue;
    const bool had =
        change.before != v1::Job::STATE_UNSPECIFIED && has_state(query_, change.before);
    const bool has = !change.deleted && has_state(query_, change.job->state());
    if (!had && !has) continue;
    const auto kind = change.deleted ? v1::JobChange::DELETED
                      : has          ? v1::JobChange::CHANGED
                                     : v1::JobChange::LEFT;
    *add(kind, messages).mutable_job() = *change.job;
  }
}

v1::JobChange& JobChangeFeed::add(v1::JobChange::Kind kind,
                                  std::deque<v1::JobChange>& messages) const {
  v1::JobChange& message = messages.emplace_back();
  message.set_kind(kind);
  if (!listing_) message.set_cursor(make_cursor({store_.recent().epoch(), seen_}, filter_));
  return message;
}

}  // namespace dotresize
