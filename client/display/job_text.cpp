#include "client/display/job_text.h"

#include <fmt/format.h>

#include "base/failure.h"
#include "base/process/program.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/report/report_tables.h"

namespace dotresize {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string result_table(const v1::JobResult& result) {
  const auto report_of = [](const v1::ModelSize& size) {
    ModelReport model{size.parameters(), size.bytes(), std::nullopt};
    if (size.perplexity() > 0.0) model.perplexity = size.perplexity();
    if (size.has_kl()) model.kl = size.kl();
    if (size.has_agreement()) model.agreement = size.agreement();
    return model;
  };
  return dotresize::result_table(report_of(result.dense()), report_of(result.compressed()));
}

template <class Warnings>
std::string warnings_text(const Warnings& warnings) {
  std::string text;
  for (const std::string& warning : warnings) text += "warning: " + printable(warning) + "\n";
  return text;
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

std::string job_text(const v1::Job& job, std::time_t now) {
  std::string text = format_table(job_rows(job, now), {Align::kLeft, Align::kLeft});
  if (!job.has_result() || job.has_sweep()) return text;  // a sweep has many results
  const v1::JobResult& result = job.result();
  return text + '\n' + result_table(result) + warnings_text(result.warnings());
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
  const std::vector<std::string> launchers(server.launchers().begin(), server.launchers().end());
  if (!launchers.empty()) rows.push_back({"launchers", printable(listed(launchers))});
  if (!server.paused().empty()) rows.push_back({"starts no job", printable(server.paused())});
  return format_table(rows, {Align::kLeft, Align::kLeft});
}

std::string done_text(const v1::Job& job) {
  if (job.state() == v1::Job::SUCCEEDED) return "100 %";
  return job.has_progress() ? render_share(job.progress()) : "";
}

std::string job_table(const std::vector<v1::Job>& jobs, std::time_t now) {
  if (jobs.empty()) return "no jobs\n";
  Rows rows = {{"ID", "NAME", "STATE", "DONE", "CREATED", "TOOK"}};
  for (const v1::Job& job : jobs) {
    rows.push_back({printable(job.id()), printable(job.spec().name()), state_name(job),
                    done_text(job), age_text(job.create_time(), now), time_taken(job, now)});
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
                      {Align::kLeft, Align::kLeft}) +
         warnings_text(result.warnings());
}

std::string report_text(const ReportSummary& summary) {
  return format_table({{"name", printable(summary.name)},
                       {"method", printable(summary.method)},
                       {"target", printable(summary.target)},
                       {"width", width_text(summary)},
                       {"took", format_duration(summary.wall_time_s)}},
                      {Align::kLeft, Align::kLeft}) +
         "\n" + result_table(summary.dense, summary.compressed) + warnings_text(summary.warnings);
}

}  // namespace dotresize
