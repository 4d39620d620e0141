#include "job/status/job_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/status/job_rows.h"

namespace dotresize {
namespace {

using Rows = std::vector<std::vector<std::string>>;
using Timestamp = google::protobuf::Timestamp;

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

double unix_time(const Timestamp& time) {
  return static_cast<double>(time.seconds()) + 1e-9 * time.nanos();
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
  const double end = job.has_end_time() ? unix_time(job.end_time()) : static_cast<double>(now);
  return format_duration(end - unix_time(job.start_time()));
}

std::string age_text(const Timestamp& time, std::time_t now) {
  return format_duration(static_cast<double>(now) - unix_time(time)) + " ago";
}

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
  if (job.options().has_notify()) {
    const v1::Notification& notification = job.notification();
    rows.push_back({"notifies", printable(job.options().notify().webhook())});
    const bool ended = notification.state() != v1::Notification::STATE_UNSPECIFIED;
    std::string text = counted(notification.attempts(), "attempt");
    if (notification.state() == v1::Notification::DELIVERED) {
      text = "delivered at " + date_text(notification.last_attempt_time()) + ", after " + text;
    } else {
      const bool waits = notification.state() == v1::Notification::PENDING;
      text = (waits ? "not delivered yet, " : "given up after ") + text;
      if (!notification.last_error().empty()) text += ": " + printable(notification.last_error());
    }
    if (ended) rows.push_back({"", text});  // before the job's end there is nothing to tell
  }
  if (job.unfinished_bytes() > 0) {
    rows.push_back({"unfinished", human_bytes(job.unfinished_bytes()) + "; dotresize resume " +
                                      printable(job.id()) + " goes on from there"});
  }
  return rows;
}

double fraction_of(const v1::Progress& progress) {
  return std::isnan(progress.fraction()) ? 0.0 : std::clamp(progress.fraction(), 0.0, 1.0);
}

int percent_of(const v1::Progress& progress) {
  constexpr double kRounding = 1e-9;  // 0.58 * 100 is a little less than 58
  return static_cast<int>(100.0 * fraction_of(progress) + kRounding);
}

std::string render_share(const v1::Progress& progress) {
  return std::to_string(percent_of(progress)) + " %";
}

std::string phase_name(const v1::Progress& progress) {
  return progress.phase().empty() ? "starting" : printable(progress.phase());
}

ProgressDetails details_of(const v1::Progress& progress) {
  ProgressDetails details;
  if (progress.junctions_total() > 0) {
    details.junctions =
        fmt::format("junctions {}/{}", progress.junctions_done(), progress.junctions_total());
  }
  if (progress.tokens_per_second() > 0.0) {
    details.rate = format_rate(progress.tokens_per_second()) + " tok/s";
  }
  if (progress.bytes_total() > 0) {
    details.junctions = fmt::format("{} of {}", human_bytes(progress.bytes_done()),
                                    human_bytes(progress.bytes_total()));
  }
  if (progress.bytes_per_second() >= 1.0) {
    details.rate = human_bytes(static_cast<int64_t>(progress.bytes_per_second())) + "/s";
  }
  if (progress.eta_s() >= 0.0 && fraction_of(progress) > 0.0) {
    details.eta = "ETA " + format_clock(progress.eta_s());
  }
  return details;
}

std::string joined(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += separator + part;
  }
  return text;
}

std::string render_plain(const v1::Progress& progress) {
  const ProgressDetails details = details_of(progress);
  return phase_name(progress) + " " + render_share(progress) +
         joined({details.junctions, details.rate, details.eta}, ", ");
}

}  // namespace dotresize
