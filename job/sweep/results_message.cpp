#include "job/sweep/results_message.h"

#include <google/protobuf/util/json_util.h>

#include "base/errors.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

constexpr size_t kMaxText = 2000;

SweepState state_of(v1::SweepResults::Variant::State state) {
  switch (state) {
    case v1::SweepResults::Variant::done:
      return SweepState::kDone;
    case v1::SweepResults::Variant::failed:
      return SweepState::kFailed;
    case v1::SweepResults::Variant::refused:
      return SweepState::kRefused;
    default:
      return SweepState::kPending;
  }
}

ReportSummary report_of(const v1::SweepResults& results, const v1::SweepResults::Variant& variant) {
  const v1::SweepResults::Dense& dense = results.dense();
  ReportSummary report;
  report.width = variant.width();
  report.width_range = printable(variant.width_range(), kMaxText);
  report.dense = {dense.parameters(), dense.bytes(), dense.perplexity()};
  report.compressed = {variant.parameters(), variant.bytes(), variant.perplexity()};
  if (variant.has_kl()) report.compressed.kl = variant.kl();
  if (variant.has_agreement()) report.compressed.agreement = variant.agreement();
  report.wall_time_s = variant.wall_time_s();
  return report;
}

SweepRow row_of(const v1::SweepResults& results, const v1::SweepResults::Variant& variant) {
  SweepRow row;
  for (const std::string& axis : results.axes()) {
    const auto value = variant.values().fields().find(axis);
    const bool used = value != variant.values().fields().end() && !value->second.has_null_value();
    row.values.push_back(used ? printable(value->second.string_value(), kMaxText) : kNotApplicable);
  }
  row.id = printable(variant.id(), kMaxText);
  row.state = state_of(variant.state());
  row.reason = printable(variant.reason(), kMaxText);
  if (row.state == SweepState::kDone) row.report = report_of(results, variant);
  row.model = printable(variant.model(), kMaxText);
  row.front = variant.pareto();
  row.best = variant.best();
  return row;
}

}  // namespace

v1::SweepResults results_message(const std::string& results_json) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // written by a later version
  v1::SweepResults results;
  const auto status = google::protobuf::util::JsonStringToMessage(results_json, &results, options);
  if (!status.ok()) throw InputError("results.json is not the result of a sweep");
  return results;
}

ReportedSweep reported_sweep(const v1::SweepResults& results) {
  ReportedSweep sweep;
  sweep.plan.file.base.spec.set_name(printable(results.name(), kMaxText));
  sweep.plan.directory = printable(results.directory(), kMaxText);
  sweep.plan.combinations = results.combinations();
  for (const std::string& axis : results.axes()) {
    sweep.plan.file.axes.push_back({printable(axis, kMaxText), {}});
  }
  for (const v1::SweepResults::Variant& variant : results.variants()) {
    sweep.rows.push_back(row_of(results, variant));
  }
  return sweep;
}

}  // namespace dotresize
