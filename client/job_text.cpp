#include "client/job_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/failure.h"
#include "base/human_text.h"
#include "base/printable.h"
#include "base/program.h"
#include "client/progress_bar.h"
#include "job/report/result_table.h"
#include "job/spec/job_state.h"

namespace dotresize {
namespace {

using Rows = std::vector<std::vector<std::string>>;
using Timestamp = google::protobuf::Timestamp;

std::string date(const Timestamp& time) {
  const std::time_t seconds = time.seconds();
  std::tm local{};
  std::array<char, 64> buffer{};
  if (localtime_r(&seconds, &local) == nullptr) return "?";
  return {buffer.data(),
          std::strftime(buffer.data(), buffer.size(), "%Y-%m-%d %H:%M:%S %Z", &local)};
}

double seconds_between(const Timestamp& from, const Timestamp& to) {
  return static_cast<double>(to.seconds() - from.seconds()) + 1e-9 * (to.nanos() - from.nanos());
}

/// How long the job has computed, or "" if it has not begun. Of one that has succeeded what its
/// ranks have measured: the same everywhere.
std::string time_taken(const v1::Job& job, std::time_t now) {
  if (job.has_result()) return format_duration(job.result().wall_time_s());
  if (!job.has_start_time()) return "";
  Timestamp end;
  end.set_seconds(now);
  if (job.has_end_time()) end = job.end_time();
  return format_duration(seconds_between(job.start_time(), end));
}

ModelReport model_report(const v1::ModelSize& size) {
  ModelReport model{size.parameters(), size.bytes(), std::nullopt};
  if (size.perplexity() > 0.0) model.perplexity = size.perplexity();
  if (size.has_kl()) model.kl = size.kl();
  if (size.has_agreement()) model.agreement = size.agreement();
  return model;
}

std::string result_table(const v1::JobResult& result) {
  return result_table(model_report(result.dense()), model_report(result.compressed()));
}

/// "4 min 2 s ago"
std::string age(const Timestamp& time, std::time_t now) {
  Timestamp current;
  current.set_seconds(now);
  return format_duration(seconds_between(time, current)) + " ago";
}

std::string short_progress(const v1::Job& job) {
  if (job.state() == v1::Job::SUCCEEDED) return "100 %";
  return job.has_progress() ? render_share(job.progress()) : "";
}

}  // namespace

int exit_code_for(const v1::Job& job) {
  switch (job.state()) {
    case v1::Job::SUCCEEDED:
      return kExitOk;
    case v1::Job::CANCELLED:
      return kExitCancelled;
    default:
      return job.error().code() == kInvalidInput ? kExitBadData : kExitJobFailed;
  }
}

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

std::vector<std::vector<std::string>> job_rows(const v1::Job& job, std::time_t now) {
  Rows rows = {{"job", printable(job.id())},
               {"name", printable(job.spec().name())},
               {"state", state_name(job)}};
  if (job.has_queue_position()) {
    rows.push_back({"position", std::to_string(job.queue_position()) + " in the queue"});
    rows.push_back({"waits for", printable(job.waiting_for())});
    if (job.has_expected_start_time()) {
      rows.push_back({"starts", "at about " + date(job.expected_start_time())});
    }
    if (job.has_retry_time()) rows.push_back({"not before", date(job.retry_time())});
  }
  if (job.attempt() > 1) rows.push_back({"attempt", std::to_string(job.attempt())});
  if (job.has_launcher()) {
    rows.push_back({"launcher", v1::Resources::Launcher_Name(job.launcher())});
  }
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
  rows.push_back({"created", date(job.create_time())});
  if (job.has_start_time()) rows.push_back({"started", date(job.start_time())});
  if (job.has_end_time()) rows.push_back({"ended", date(job.end_time())});
  if (job.has_start_time()) rows.push_back({"took", time_taken(job, now)});
  if (job.has_error()) rows.push_back({"error", error_text(job.error())});
  if (job.unfinished_bytes() > 0) {
    rows.push_back({"unfinished", human_bytes(job.unfinished_bytes()) + "; dotresize resume " +
                                      printable(job.id()) + " goes on from there"});
  }
  return rows;
}

std::string job_text(const v1::Job& job, std::time_t now) {
  std::string text = format_table(job_rows(job, now), {Align::kLeft, Align::kLeft});
  if (!job.has_result() || job.has_sweep()) return text;  // a sweep has many
  text += '\n';
  return text + result_table(job.result());
}

std::string server_text(const v1::ServerInfo& server) {
  const auto of = [](const std::string& used, const std::string& capacity) {
    return used + " of " + capacity;
  };
  const v1::ResourceAmounts& used = server.used();
  const v1::ResourceAmounts& capacity = server.capacity();
  Rows rows = {
      {"version", printable(server.version())},
      {"jobs", std::to_string(server.running_jobs()) + " running, " +
                   std::to_string(server.queued_jobs()) + " queued"},
      {"ranks", of(std::to_string(used.ranks()), std::to_string(capacity.ranks()))},
      {"GPUs", of(std::to_string(used.gpus()), std::to_string(capacity.gpus()))},
      {"memory", of(human_bytes(used.memory_bytes()), human_bytes(capacity.memory_bytes()))},
      {"drained", server.drained() ? "yes" : "no"}};
  std::string launchers;
  for (const int launcher : server.launchers()) {
    launchers += (launchers.empty() ? "" : ", ") +
                 v1::Resources::Launcher_Name(static_cast<v1::Resources::Launcher>(launcher));
  }
  if (!launchers.empty()) rows.push_back({"launchers", launchers});
  if (!server.paused().empty()) rows.push_back({"starts no job", printable(server.paused())});
  return format_table(rows, {Align::kLeft, Align::kLeft});
}

std::string job_table(const std::vector<v1::Job>& jobs, std::time_t now) {
  if (jobs.empty()) return "no jobs\n";
  Rows rows = {{"ID", "NAME", "STATE", "DONE", "CREATED", "TOOK"}};
  for (const v1::Job& job : jobs) {
    rows.push_back({printable(job.id()), printable(job.spec().name()), state_name(job),
                    short_progress(job), age(job.create_time(), now), time_taken(job, now)});
  }
  return format_table(rows, {Align::kLeft, Align::kLeft, Align::kLeft, Align::kRight, Align::kRight,
                             Align::kRight});
}

std::string outcome_text(const v1::Job& job) {
  if (job.state() == v1::Job::CANCELLED) return "the job was cancelled\n";
  if (job.state() == v1::Job::FAILED) return "the job failed: " + error_text(job.error()) + "\n";
  const v1::JobResult& result = job.result();
  return result_table(result) + "\n" +
         format_table({{"output", printable(result.output_path())},
                       {"took", format_duration(result.wall_time_s())}},
                      {Align::kLeft, Align::kLeft});
}

/// Why the perplexities of the reports cannot be compared; empty if they can.
std::string comparison_note(const std::vector<ReportSummary>& summaries) {
  const auto tokens_of = [](const ReportSummary& summary) {
    const auto found = summary.fingerprints.find("evaluation_tokens");
    return found == summary.fingerprints.end() ? std::string() : found->second;
  };
  const bool same = std::ranges::all_of(summaries, [&](const ReportSummary& summary) {
    return tokens_of(summary) == tokens_of(summaries.front());
  });
  return same ? "" : "\nnot all perplexities are over the same tokens: they cannot be compared\n";
}

std::string width_text(const ReportSummary& summary) {
  return summary.width_range +
         (summary.hidden_size ? " of " + std::to_string(*summary.hidden_size) : "");
}

std::string comparison_table(const std::vector<ReportSummary>& summaries) {
  Rows rows = {{"name", "method", "target", "width", "parameters", "bytes", "of dense",
                "perplexity", "change", "KL", "agreement", "took"}};
  for (const ReportSummary& summary : summaries) {
    const ModelReport& dense = summary.dense;
    const ModelReport& compressed = summary.compressed;
    const bool scored = dense.perplexity && compressed.perplexity;
    rows.push_back(
        {printable(summary.name), printable(summary.method), printable(summary.target),
         width_text(summary), with_separators(compressed.parameters), human_bytes(compressed.bytes),
         format_percent(static_cast<double>(compressed.bytes) / static_cast<double>(dense.bytes)),
         scored ? format_perplexity(*compressed.perplexity) : "",
         scored ? format_change(*dense.perplexity, *compressed.perplexity) : "",
         compressed.kl ? format_nats(*compressed.kl) : "",
         compressed.agreement ? format_percent(*compressed.agreement) : "",
         format_duration(summary.wall_time_s)});
  }
  std::vector<Align> alignment(rows.front().size(), Align::kRight);
  std::fill_n(alignment.begin(), 3, Align::kLeft);
  return format_table(rows, alignment) + comparison_note(summaries);
}

std::string report_text(const ReportSummary& summary) {
  return format_table({{"name", printable(summary.name)},
                       {"method", printable(summary.method)},
                       {"target", printable(summary.target)},
                       {"width", width_text(summary)},
                       {"took", format_duration(summary.wall_time_s)}},
                      {Align::kLeft, Align::kLeft}) +
         "\n" + result_table(summary.dense, summary.compressed);
}

}  // namespace dotresize
