#include "job/report/stored_report.h"

#include "base/errors.h"
#include "base/text/checked_json.h"

namespace dotresize {
namespace {

using nlohmann::json;

template <class Entry>
std::vector<Entry> entries(const json& document, const char* key, Entry (*read)(const json&)) {
  std::vector<Entry> found;
  if (!document.contains(key)) return found;
  for (const json& entry : document.at(key)) found.push_back(read(entry));
  return found;
}

}  // namespace

StoredReport parse_report(const std::string& text, const std::string& origin) {
  StoredReport report;
  report.document = parse_json_object(text, origin);
  const json& document = report.document;
  report.summary = report_summary(document, origin);
  try {
    report.junctions = entries(document, "junctions", junction_report_from_json);
    report.shortcuts = entries(document, "shortcuts", shortcut_report_from_json);
    report.mlps = entries(document, "mlps", mlp_report_from_json);
    report.attentions = entries(document, "attentions", attention_report_from_json);
    if (document.contains("heal") && document.at("heal").contains("update_share")) {
      report.healing = healing_report_from_json(document.at("heal"));
    }
    report.ranks = entries(document, "ranks", rank_report_from_json);
  } catch (const json::exception& error) {
    throw InputError(origin + ": " + json_fault(error));
  } catch (const InputError& error) {
    throw InputError(origin + ": " + error.what());
  }
  return report;
}

}  // namespace dotresize
