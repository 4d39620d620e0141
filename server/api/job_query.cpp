#include "server/api/job_query.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text/encodings.h"
#include "base/text/printable.h"
#include "server/common/api_error.h"

namespace dotresize {
namespace {

constexpr int kMaxStatesInFilter = 10;
constexpr int kMaxLabelsInFilter = 16;
constexpr size_t kMaxNameBytes = 400;  // 100 characters of UTF-8
constexpr size_t kMaxPrefixBytes = 64;
// Maximum of changes, or listed jobs, that are read at once.
constexpr int kChangesAtOnce = 64;

/// FNV-1a hash of the filter; reveals a token that is used with another filter.
uint64_t fingerprint(const v1::ListJobsRequest::Filter& filter) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream output(&stream);
    output.SetSerializationDeterministic(true);  // map entries have no order of their own
    filter.SerializeToCodedStream(&output);
  }
  uint64_t hash = 14695981039346656037u;
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

/// Parses "POSITION.FINGERPRINT"; nullopt if malformed or made for another filter.
std::optional<int64_t> position_in(const std::string& token,
                                   const v1::ListJobsRequest::Filter& filter) {
  const size_t dot = token.find('.');
  if (dot == std::string::npos) return std::nullopt;
  const auto position = parse_number<int64_t>(token.substr(0, dot), 16);
  const auto print = parse_number<uint64_t>(token.substr(dot + 1), 16);
  return print == fingerprint(filter) ? position : std::nullopt;
}

/// Returns true if the job matches the query in all that never changes: name, owner, id and labels.
bool matches(const JobQuery& query, const v1::Job& job) {
  const auto& labels = job.options().labels();
  return (query.name.empty() || query.name == job.spec().name()) &&
         (query.owner.empty() || query.owner == job.owner()) &&
         job.id().starts_with(query.id_prefix) &&
         std::ranges::all_of(query.labels, [&](const auto& wanted) {
           const auto found = labels.find(wanted.first);
           return found != labels.end() && found->second == wanted.second;
         });
}

}  // namespace

JobQuery query_of(const v1::ListJobsRequest::Filter& filter) {
  if (filter.name().size() > kMaxNameBytes) {
    throw invalid_argument("filter.name", "is longer than the name of any job");
  }
  if (filter.owner().size() > kMaxNameBytes) {
    throw invalid_argument("filter.owner", "is longer than the name of any caller");
  }
  if (filter.labels_size() > kMaxLabelsInFilter) {
    throw invalid_argument("filter.labels", "has more entries than a job may have");
  }
  if (filter.states_size() > kMaxStatesInFilter) {
    throw invalid_argument("filter.states", "has more entries than there are states");
  }
  if (filter.id_prefix().size() > kMaxPrefixBytes || !is_printable(filter.id_prefix())) {
    throw invalid_argument("filter.id_prefix", "is not the beginning of a job's id");
  }
  JobQuery query;
  query.name = filter.name();
  query.id_prefix = filter.id_prefix();
  query.owner = filter.owner();
  query.labels = {filter.labels().begin(), filter.labels().end()};
  for (const int state : filter.states()) {
    if (!v1::Job::State_IsValid(state) || state == v1::Job::STATE_UNSPECIFIED) {
      throw invalid_argument("filter.states", std::to_string(state) + " is not the state of a job");
    }
    query.states.push_back(static_cast<v1::Job::State>(state));
  }
  return query;
}

std::string make_page_token(int64_t next_before, const v1::ListJobsRequest::Filter& filter) {
  return fmt::format("{:x}.{:x}", next_before, fingerprint(filter));
}

int64_t read_page_token(const std::string& token, const v1::ListJobsRequest::Filter& filter) {
  if (token.empty()) return 0;
  const std::optional<int64_t> position = position_in(token, filter);
  if (position.value_or(0) <= 0) {
    throw invalid_argument("page_token",
                           "is not the next_page_token of an answer to the same filter");
  }
  return *position;
}

JobChangeFeed::JobChangeFeed(JobStore& store, const v1::WatchJobsRequest& request)
    : store_(store), filter_(request.filter()), query_(query_of(filter_)) {
  query_.limit = kChangesAtOnce;
  const std::string& cursor = request.cursor();
  if (cursor.empty()) return;
  const size_t dot = cursor.find('.');
  const std::optional<int64_t> sequence =
      dot == std::string::npos ? std::nullopt : position_in(cursor.substr(dot + 1), filter_);
  if (sequence.value_or(-1) < 0) {
    throw invalid_argument("cursor", "is not the cursor of an answer to the same filter");
  }
  if (cursor.substr(0, dot) != store_.recent().epoch) return;
  seen_ = *sequence;
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
  const auto includes = [&](v1::Job::State state) {
    return query_.states.empty() || std::ranges::find(query_.states, state) != query_.states.end();
  };
  for (const RecentChange& change : changes) {
    seen_ = change.sequence;
    if (listing_ && change.number < query_.before) continue;  // will be listed later
    if (!matches(query_, *change.job)) continue;
    const bool had = change.before != v1::Job::STATE_UNSPECIFIED && includes(change.before);
    const bool has = !change.deleted && includes(change.job->state());
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
  if (!listing_) {
    message.set_cursor(
        fmt::format("{}.{:x}.{:x}", store_.recent().epoch, seen_, fingerprint(filter_)));
  }
  return message;
}

}  // namespace dotresize
