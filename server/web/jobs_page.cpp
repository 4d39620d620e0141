#include "server/web/jobs_page.h"

#include <algorithm>

#include "base/text/printable.h"
#include "server/api_error.h"
#include "server/web/job_table.h"
#include "server/web/templates/html_template.h"
#include "server/web/web_files.h"

namespace dotresize {
namespace {

using ctemplate::TemplateDictionary;

constexpr int kJobsOnPage = 50;

/// Throws INVALID_ARGUMENT for a value that none of the pages sends.
void require_printable(const char* field, const std::string& value) {
  if (!is_printable(value)) throw invalid_argument(field, in_quotes(value) + " is not printable");
}

void set_filter(TemplateDictionary& dictionary, const JobsPageQuery& query) {
  set_text(dictionary, "STATE_VALUE", query.state);
  set_text(dictionary, "NAME", query.name);
  set_text(dictionary, "OWNER", query.owner);
}

}  // namespace

const std::vector<StateChoice>& state_choices() {
  using Job = v1::Job;
  static const std::vector<StateChoice> choices = {
      {"", "all", {}},
      {"queued", "queued", {Job::QUEUED}},
      {"running", "running", {Job::STARTING, Job::RUNNING}},
      {"ended", "ended", {Job::SUCCEEDED, Job::FAILED, Job::CANCELLED}},
      {"succeeded", "succeeded", {Job::SUCCEEDED}},
      {"failed", "failed", {Job::FAILED}},
      {"cancelled", "cancelled", {Job::CANCELLED}}};
  return choices;
}

v1::ListJobsRequest JobsPageQuery::request() const {
  const auto choice = std::ranges::find(state_choices(), state, &StateChoice::value);
  if (choice == state_choices().end()) {
    throw invalid_argument("state", in_quotes(state) + " is not the state of a job");
  }
  require_printable("name", name);
  require_printable("owner", owner);
  v1::ListJobsRequest request;
  request.set_page_size(kJobsOnPage);
  request.set_page_token(page);
  request.mutable_filter()->set_name(name);
  if (!owner.empty()) request.mutable_filter()->set_owner(owner);
  for (const v1::Job::State each : choice->states) request.mutable_filter()->add_states(each);
  return request;
}

std::string jobs_page_html(const JobsPageQuery& query, const v1::ListJobsResponse& found,
                           std::time_t now) {
  TemplateDictionary dictionary("jobs");
  set_filter(dictionary, query);
  for (const StateChoice& choice : state_choices()) {
    TemplateDictionary& option = *dictionary.AddSectionDictionary("STATE");
    set_text(option, "VALUE", choice.value);
    set_text(option, "LABEL", choice.label);
    if (choice.value == query.state) option.ShowSection("SELECTED");
  }
  const std::string heading = query.page.empty() ? "Newest first" : "Older jobs";
  set_embedded(
      dictionary, "TABLE",
      job_table_html({heading, {found.jobs().begin(), found.jobs().end()}, "No such job."}, now));
  if (!query.page.empty()) dictionary.ShowSection("NEWEST");
  if (!found.next_page_token().empty()) {
    set_text(*dictionary.AddSectionDictionary("OLDER"), "PAGE", found.next_page_token());
  }
  return expand_template(jobs_template(), "jobs.html", dictionary);
}

}  // namespace dotresize
