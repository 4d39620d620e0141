#include "job/status/job_rows.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/spec/job_state.h"
#include "job/status/progress_text.h"

namespace dotresize {
namespace {

using Rows = std::vector<std::vector<std::string>>;
using Timestamp = google::protobuf::Timestamp;

double seconds_between(const Timestamp& from, const Timestamp& to) {
  return static_cast<double>(to.seconds() - from.seconds()) + 1e-9 * (to.nanos() - from.nanos());
}

}  // namespace

std::string state_name(v1::Job::State state) {
  std::string name = v1::Job::State_Name(state);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name.empty() ? "unknown" : name;
}

std::string state_name(const v1::Job& job) {
  return job.cancelling() && !has_ended(job.state()) ? "cancelling" : state_name(job.state());
}

std::string error_text(const v1::JobError& error) {
  std::string place;
  if (error.rank() >= 0) place += " on rank " + std::to_string(error.rank());
  if (!error.host().empty()) place += " (" + error.host() + ")";
  if (!error.phase().empty()) place += " in phase " + error.phase();
  return printable_lines(error.code() + place + ": " + error.message());
}

std::string date_text(const Timestamp& time) {
  const std::time_t seconds = time.seconds();
  std::tm local{};
  std::array<char, 64> buffer{};
  if (localtime_r(&seconds, &local) == nullptr) return "?";
  return {buffer.data(),
          std::strftime(buffer.data(), buffer.size(), "%Y-%m-%d %H:%M:%S %Z", &local)};
}

std::string time_taken(const v1::Job& job, std::time_t now) {
  if (job.has_result()) return format_duration(job.result().wall_time_s());
  if (!job.has_start_time()) return "";
  Timestamp end;
  end.set_seconds(now);
  if (job.has_end_time()) end = job.end_time();
  return format_duration(seconds_between(job.start_time(), end));
}

std::string age_text(const Timestamp& time, std::time_t now) {
  Timestamp current;
  current.set_seconds(now);
  return format_duration(seconds_between(time, current)) + " ago";
}

namespace {

/// Adds the receiver of the end message and the state of its delivery.
void add_notification(const v1::Job& job, Rows& rows) {
  if (!job.options().has_notify()) return;
  const v1::Notification& notification = job.notification();
  rows.push_back({"notifies", printable(job.options().notify().webhook())});
  if (notification.state() == v1::Notification::STATE_UNSPECIFIED) return;  // job not ended
  std::string text = counted(notification.attempts(), "attempt");
  if (notification.state() == v1::Notification::DELIVERED) {
    text = "delivered at " + date_text(notification.last_attempt_time()) + ", after " + text;
  } else {
    text = (notification.state() == v1::Notification::PENDING ? "not delivered yet, "
                                                              : "given up after ") +
           text;
    if (!notification.last_error().empty()) text += ": " + printable(notification.last_error());
  }
  rows.push_back({"", text});
}

}  // namespace

std::vector<std::vector<std::string>> job_rows(const v1::Job& job, std::time_t now) {
  Rows rows = {{"job", printable(job.id())},
               {"name", printable(job.spec().name())},
               {"state", state_name(job)}};
  if (job.has_queue_position()) {
    rows.push_back({"position", std::to_string(job.queue_position()) + " in the queue"});
    rows.push_back({"waits for", printable(job.waiting_for())});
    if (job.has_expected_start_time()) {
      rows.push_back({"starts", "at about " + date_text(job.expected_start_time())});
    }
    if (job.has_retry_time()) rows.push_back({"not before", date_text(job.retry_time())});
  }
  if (job.has_stop_reason()) rows.push_back({"is stopped", error_text(job.stop_reason())});
  if (job.attempt() > 1) rows.push_back({"attempt", std::to_string(job.attempt())});
  if (job.has_launcher()) rows.push_back({"launcher", printable(job.launcher())});
  if (job.has_launcher_status()) rows.push_back({"", printable(job.launcher_status())});
  if (job.has_command()) rows.push_back({"to be run", printable(job.command())});
  if (job.has_progress() && !has_ended(job.state())) {
    rows.push_back({"progress", render_plain(job.progress())});
  }
  if (job.has_sweep()) {
    const v1::SweepSize& size = job.sweep_size();
    rows.push_back({"sweep", counted(size.combinations(), "combination") + ", " +
                                 counted(size.jobs(), "different job") + ", " +
                                 std::to_string(size.parallel()) + " at a time"});
  }
  rows.push_back({"model", printable(job.spec().model().path())});
  rows.push_back({"output", printable(job.spec().output().path())});
  rows.push_back({"created", date_text(job.create_time())});
  if (job.has_start_time()) rows.push_back({"started", date_text(job.start_time())});
  if (job.has_end_time()) rows.push_back({"ended", date_text(job.end_time())});
  if (job.has_start_time()) rows.push_back({"took", time_taken(job, now)});
  if (job.has_error()) rows.push_back({"error", error_text(job.error())});
  add_notification(job, rows);
  if (job.unfinished_bytes() > 0) {
    rows.push_back({"unfinished", human_bytes(job.unfinished_bytes()) + "; dotresize resume " +
                                      printable(job.id()) + " goes on from there"});
  }
  return rows;
}

}  // namespace dotresize
