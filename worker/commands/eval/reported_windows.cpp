#include "worker/commands/eval/reported_windows.h"

#include <fmt/core.h>

#include <optional>

#include "base/files/partial_path.h"
#include "job/report/report.h"

namespace dotresize {
namespace {

std::optional<int64_t> reported_seqlen(const std::filesystem::path& model_dir) {
  if (!is_model_of_dotresize(model_dir)) return std::nullopt;
  const ReportSummary report = read_report_summary(model_dir);
  if (!report.compressed.perplexity) return std::nullopt;
  return report.evaluation_seqlen;
}

}  // namespace

void take_reported_seqlen(EvalRequest& request) {
  if (request.source.text.empty() || request.source.seqlen) return;
  for (const auto& model : request.models) {
    request.source.seqlen = reported_seqlen(model);
    if (request.source.seqlen) return;
  }
}

std::vector<std::string> seqlen_warnings(const std::vector<MeasuredModel>& models) {
  std::vector<std::string> warnings;
  for (const MeasuredModel& model : models) {
    if (!model.perplexity) continue;
    const auto reported = reported_seqlen(model.model);
    if (reported.value_or(model.perplexity->seqlen) == model.perplexity->seqlen) continue;
    warnings.push_back(fmt::format(
        "{}: the perplexity is over windows of {} tokens, that of its report over windows of {}: "
        "they cannot be compared (--seqlen {} measures it again)",
        model.model.string(), model.perplexity->seqlen, *reported, *reported));
  }
  return warnings;
}

}  // namespace dotresize
