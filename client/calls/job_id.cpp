#include "client/calls/job_id.h"

#include <algorithm>
#include <vector>

#include "base/errors.h"
#include "base/text/printable.h"
#include "client/display/job_text.h"

namespace dotresize {
namespace {

constexpr std::string_view kPrefix = "j-";
constexpr size_t kDigits = 16;

bool is_hexadecimal(const std::string& text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string candidates_text(const std::vector<v1::Job>& jobs) {
  std::string text;
  for (const v1::Job& job : jobs) {
    text +=
        "\n  " + printable(job.id()) + "  " + printable(job.spec().name()) + "  " + state_name(job);
  }
  return text;
}

}  // namespace

bool is_job_id(const std::string& text) {
  return text.size() == kPrefix.size() + kDigits && text.starts_with(kPrefix) &&
         is_hexadecimal(text.substr(kPrefix.size()));
}

std::string find_job_id(Connection& connection, const std::string& text) {
  const std::string digits = text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text;
  if (is_job_id(text) || digits.empty() || digits.size() > kDigits || !is_hexadecimal(digits)) {
    return text;
  }
  constexpr int kShown = 10;
  v1::ListJobsRequest::Filter filter;
  filter.set_id_prefix(std::string(kPrefix) + digits);
  std::vector<v1::Job> jobs = connection.list_jobs(filter, kShown);
  // An older server does not know the filter.
  std::erase_if(jobs,
                [&](const v1::Job& job) { return !job.id().starts_with(filter.id_prefix()); });
  if (jobs.empty()) return text;
  if (jobs.size() == 1) return jobs.front().id();
  throw InputError("several jobs begin with " + in_quotes(text) + ":" + candidates_text(jobs));
}

}  // namespace dotresize
