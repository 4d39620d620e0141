#include "job/page/failure_page.h"

#include <fmt/format.h>

namespace dotresize {

Page failure_page(const EndedJob& job) {
  Page page;
  page.kind = "Compression without a result";
  page.title = job.name.empty() ? "unnamed job" : job.name;
  page.summary = fmt::format("The job has {} and left no model.",
                             job.state == "cancelled" ? "been cancelled" : "failed");
  page.error = job.error;
  page.tables = {{"The job", {"what", "value"}, job.facts, /*prose=*/true}};
  if (!job.log_tail.empty()) page.texts.push_back({"End of its log", job.log_tail});
  page.texts.push_back({"What was asked for", job.spec});
  return page;
}

}  // namespace dotresize
