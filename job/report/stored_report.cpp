#include "job/report/stored_report.h"

#include <algorithm>
#include <sstream>

#include "base/errors.h"
#include "base/files/partial_path.h"
#include "base/text/checked_json.h"
#include "job/model/config_fields.h"
#include "job/plan/plan_table.h"

namespace dotresize {
namespace {

using nlohmann::json;

constexpr int64_t kAny = INT64_MAX;

ModelReport read_model_report(const ConfigFields& root, const std::string& key) {
  const auto fields = root.object(key);
  if (!fields) root.fail(key, "is missing");
  ModelReport model;
  model.parameters = fields->required_integer("parameters", 0, kAny);
  model.bytes = fields->required_integer("bytes", 0, kAny);
  model.perplexity = fields->positive("perplexity", 1e300);
  model.kl = fields->number("kl", -1.0, 1e300);  // may be slightly below 0 by rounding
  model.agreement = fields->number("agreement", 0.0, 1.0);
  return model;
}

/// Reads a section that source_json() (job/report/report.cpp) wrote.
TokenSource read_source(const ConfigFields& section) {
  TokenSource source;
  const json& texts = section.raw("text");
  for (const json& text : texts.is_array() ? texts : json::array()) {
    if (!text.is_string()) section.fail("text", "must be a list of files");
    source.text.emplace_back(text.get<std::string>());
  }
  source.tokens = section.text("tokens").value_or("");
  source.samples = section.integer("samples", 1, kAny);
  source.seqlen = section.integer("seqlen", 2, kAny);
  return source;
}

/// Reads the dtypes of a model; nullopt if a report does not have them.
std::optional<StoredDtypes> read_dtypes(const ConfigFields& root, const std::string& key) {
  const auto fields = root.object(key);
  if (!fields || !fields->has("dtype")) return std::nullopt;
  const auto named = [](const ConfigFields& of, const std::string& name) {
    const auto dtype = find_dtype(of.text(name).value_or(""));
    if (!dtype) of.fail(name, "is not one of float32, float16, bfloat16");
    return *dtype;
  };
  StoredDtypes dtypes{named(*fields, "dtype"), {}};
  const auto others = fields->object("other_dtypes");
  if (!others) return dtypes;
  for (const auto& [tensor, dtype] : fields->raw("other_dtypes").items()) {
    dtypes.set(tensor, named(*others, tensor));
  }
  return dtypes;
}

/// Reads the list `key` of the document, if it is there, and leaves in its place what was read.
template <class Read>
void check_entries(json& document, const std::string& key, const Read& read) {
  if (!document.contains(key)) return;
  if (!document.at(key).is_array()) throw InputError(key + ": must be a list");
  for (json& entry : document.at(key)) entry = to_json(read(entry));
}

}  // namespace

ReportSummary read_report_summary(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / kReportDirectory / kReportFile;
  return report_summary(read_json_object(path, kMaxReportBytes), path.string());
}

ReportSummary report_summary(const json& document, const std::string& origin) {
  const ConfigFields root(document, origin);
  root.required_integer("schema_version", kReportVersion, kReportVersion);
  const auto method = root.object("method");
  if (!method) root.fail("method", "is missing");

  ReportSummary summary;
  summary.name = root.text("name").value_or("");
  summary.method = method->text("name").value_or("");
  if (summary.method.empty()) method->fail("name", "is missing");
  summary.width = method->required_integer("width", 1, kAny);
  // An allocation may make the widths of the mapped junctions different.
  int64_t least = summary.width;
  const json junctions = document.value("junctions", json::array());
  for (const json& entry : junctions) {
    if (!entry.is_object()) continue;
    const ConfigFields junction(entry, origin, "junctions.");
    if (!junction.boolean("mapped", true)) continue;
    least = std::min(least, junction.required_integer("width", 1, kAny));
  }
  summary.width_range = width_range(least, summary.width);
  // The target is made of the parts of target_text (job/plan/plan_table.h) that are present.
  std::ostringstream target;
  for (const char* key : {"sparsity", "size"}) {
    const json& value = method->raw(key);
    if (value.is_number()) target << (target.tellp() > 0 ? ", " : "") << key << " " << value;
  }
  if (method->text("allocate") == "auto") target << ", allocated";
  summary.target = target.str();
  summary.stock = method->text("map_sharing") == "model";
  summary.hidden_size = method->integer("hidden_size", 1, kAny);
  summary.dense = read_model_report(root, "dense");
  summary.compressed = read_model_report(root, "compressed");
  summary.output_dtypes = read_dtypes(root, "output");
  summary.wall_time_s = root.required_positive("wall_time_s", 1e12);
  summary.compute_dtype = root.text("compute_dtype").value_or("");
  if (const auto calibration = root.object("calibration")) {
    summary.calibration = read_source(*calibration);
  }
  if (const auto evaluation = root.object("evaluation")) {
    summary.evaluation.emplace(EvaluationSource{read_source(*evaluation)}).unused_windows =
        evaluation->boolean("beside_calibration", false);
  }
  const auto fingerprints = root.object("fingerprints");
  if (!fingerprints) root.fail("fingerprints", "is missing");
  for (const auto& [name, value] : root.raw("fingerprints").items()) {
    summary.fingerprints[name] = fingerprints->text(name).value_or("");
  }
  const auto read_texts = [&](const char* key, std::vector<std::string>& texts) {
    try {
      if (document.contains(key)) document.at(key).get_to(texts);
    } catch (const json::exception& error) {
      throw InputError(origin + ": " + key + ": " + json_fault(error));
    }
  };
  read_texts("files", summary.files);
  read_texts("warnings", summary.warnings);
  return summary;
}

StoredReport parse_report(const std::string& text, const std::string& origin) {
  json document = parse_json_object(text, origin);
  ReportSummary summary = report_summary(document, origin);
  try {
    check_entries(document, "junctions", junction_report_from_json);
    check_entries(document, "shortcuts", shortcut_report_from_json);
    for (const bool of_attention : {false, true}) {
      check_entries(document, of_attention ? "attentions" : "mlps",
                    [&](const json& object) { return cut_report_from_json(object, of_attention); });
    }
    if (document.contains("heal") && document.at("heal").contains("update_share")) {
      json& heal = document.at("heal");
      if (!heal.value("layers", json::array()).is_array()) {
        throw InputError("layers: must be a list");
      }
      heal.update(json(heal.get<HealingReport>()));
    }
    check_entries(document, "ranks", rank_report_from_json);
  } catch (const json::exception& error) {
    throw InputError(origin + ": " + json_fault(error));
  } catch (const InputError& error) {
    throw InputError(origin + ": " + error.what());
  }
  return {std::move(summary), std::move(document)};
}

}  // namespace dotresize
