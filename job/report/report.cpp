#include "job/report/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "base/errors.h"
#include "base/files/partial_path.h"
#include "base/text/checked_json.h"
#include "base/text/human_text.h"
#include "dotresize/v1/jobs.pb.h"
#include "job/model/config_fields.h"
#include "job/plan/plan_table.h"

namespace dotresize {
namespace {

using nlohmann::json;

constexpr int64_t kSchemaVersion = 1;
constexpr int64_t kAny = INT64_MAX;

json mlp_json(const MlpTarget& mlp) {
  json object = json::object();
  set_if(object, "sparsity", mlp.sparsity);
  if (mlp.allocated) {  // they differ by layer; see `mlps`
    object["widths"] = "by_loss";
    return object;
  }
  if (mlp.width > 0) object["width"] = mlp.width;
  if (mlp.expert_width > 0) object["expert_width"] = mlp.expert_width;
  return object;
}

json method_json(const ResolvedJob& job, const JunctionWidths& widths) {
  json method = {{"name", job.method.name},
                 {"width", widths.largest()},
                 {"hidden_size", job.model.hidden_size},
                 {"nominal_sparsity", widths.nominal_sparsity(job.model.hidden_size)},
                 {"head", job.maps.head_sliced ? "sliced" : "dense"},
                 {"map_sharing", to_string(job.maps.sharing)},
                 {"allow_larger", job.target.allow_larger}};
  if (!job.stock_output()) method["shortcuts"] = to_string(job.maps.shortcuts);
  method["metric"] = to_string(job.maps.metric);
  set_if(method, "sparsity", job.target.sparsity);
  set_if(method, "size", job.target.size);
  if (job.target.allocation) {
    method["size"] = job.target.allocation->size;
    method["allocate"] = "auto";
    method["round_to"] = job.target.allocation->round_to;
  }
  if (job.mlp) method["mlp"] = mlp_json(*job.mlp);
  if (job.method.transport()) {
    method["lambda"] = job.maps.lambda;
    method["on_nonconvergence"] = job.maps.accept_nonconvergence ? "accept" : "fail";
  }
  return method;
}

/// Predicted KL of the whole output and of its parts, beside the measured KL.
json allocation_json(const Report& report) {
  const Allocation& chosen = *report.allocation;
  const auto sum = [](const std::vector<double>& loss_increases) {
    return std::accumulate(loss_increases.begin(), loss_increases.end(), 0.0);
  };
  json object = {{"predicted_kl", chosen.predicted_loss_increase()},
                 {"of_junctions", sum(chosen.junction_loss_increases)},
                 {"of_mlps", sum(chosen.mlp_loss_increases)},
                 {"features", chosen.features}};
  if (!chosen.values.empty()) {
    object["of_values"] = sum(chosen.value_loss_increases);
    object["value_head_dims"] = chosen.values;
  }
  if (!chosen.shortcut_ranks.empty()) {
    object["of_shortcuts"] = sum(chosen.shortcut_loss_increases);
    object["shortcut_rank"] = std::ranges::max(chosen.shortcut_ranks);
  }
  set_if(object, "held_out_kl", report.held_out_kl);
  if (report.compressed.kl) {
    object["measured_kl"] = *report.compressed.kl;
    object["predicted_over_measured"] = chosen.predicted_loss_increase() / *report.compressed.kl;
  }
  return object;
}

/// Warning that an allocation's output is worse than predicted; empty if it is not.
std::string prediction_warning(const Report& report) {
  if (!report.allocation || !report.held_out_kl) return "";
  const double predicted = report.allocation->predicted_loss_increase();
  if (*report.held_out_kl <= kMostOverPredicted * predicted) return "";
  return fmt::format(
      "the output is further from the dense model than predicted: KL {} nats a token on windows "
      "that nothing was fitted to, {} predicted",
      format_nats(*report.held_out_kl), format_nats(predicted));
}

/// Warning that the output's perplexity is too high for any use; empty if it is not.
std::string perplexity_warning(const Report& report) {
  constexpr double kMostTimes = 10.0;
  if (!report.dense.perplexity || !report.compressed.perplexity) return "";
  const double times = *report.compressed.perplexity / *report.dense.perplexity;
  if (times < kMostTimes) return "";
  return fmt::format(
      "the perplexity is {} times that of the dense model, {} for {}: the output is of little use; "
      "a larger size, or method: {{size}} alone, costs less",
      format_perplexity(times), format_perplexity(*report.compressed.perplexity),
      format_perplexity(*report.dense.perplexity));
}

json source_json(const TokenSource& source, int64_t tokens) {
  json object = {{"token_count", tokens}};
  for (const auto& text : source.text) object["text"].push_back(text.string());
  if (!source.tokens.empty()) object["tokens"] = source.tokens.string();
  set_if(object, "samples", source.samples);
  set_if(object, "seqlen", source.seqlen);
  return object;
}

json calibration_json(const Report& report) {
  json object = source_json(report.job.calibration, report.calibration_tokens);
  if (report.calibration_s > 0) object["seconds"] = report.calibration_s;
  // No token has gone through the model if another job's statistics were used.
  if (report.calibration_s > 0 && !report.job.statistics.used()) {
    object["tokens_per_second"] = report.tokens_per_second();
  }
  object["schedule"] = report.job.schedule.name;
  object["activations"] = report.job.schedule.activations;
  const KeptStatistics& statistics = report.job.statistics;
  if (statistics.saved()) object["statistics"] = {{"save", statistics.save.string()}};
  if (statistics.used()) object["statistics"] = {{"use", statistics.use.string()}};
  return object;
}

json heal_json(const Report& report) {
  const Healing& healing = *report.job.healing;
  json object = {{"epochs", healing.epochs},
                 {"learning_rate", healing.learning_rate},
                 {"token_count", report.healing_tokens}};
  set_if(object, "samples", healing.samples);
  if (report.healing) object.update(to_json(*report.healing));
  return object;
}

json model_json(const ModelReport& model) {
  json object = {{"parameters", model.parameters}, {"bytes", model.bytes}};
  set_if(object, "perplexity", model.perplexity);
  set_if(object, "kl", model.kl);
  set_if(object, "agreement", model.agreement);
  return object;
}

json compressed_json(const Report& report) {
  json object = model_json(report.compressed);
  const NetSize size = net_size(report);
  object["parameters_fraction"] = size.parameters_fraction();
  object["bytes_fraction"] = size.bytes_fraction();
  return object;
}

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

std::map<std::string, std::string> read_fingerprints(const ConfigFields& root) {
  const auto fields = root.object("fingerprints");
  if (!fields) root.fail("fingerprints", "is missing");
  std::map<std::string, std::string> fingerprints;
  for (const auto& [name, value] : root.raw("fingerprints").items()) {
    fingerprints[name] = fields->text(name).value_or("");
  }
  return fingerprints;
}

/// Least and largest width of the mapped junctions, which an allocation may make different.
std::string read_width_range(const json& document, const std::string& origin, int64_t largest) {
  const json junctions = document.value("junctions", json::array());
  int64_t least = largest;
  for (const json& entry : junctions) {
    if (!entry.is_object()) continue;
    const ConfigFields junction(entry, origin, "junctions.");
    if (junction.boolean("mapped", true)) {
      least = std::min(least, junction.required_integer("width", 1, kAny));
    }
  }
  return width_range(least, largest);
}

/// Text such as "sparsity 0.2": the parts of target_text (job/plan/plan_table.h) whose keys are
/// present.
std::string read_target(const ConfigFields& method) {
  std::ostringstream text;
  const auto add = [&](const char* key) {
    const json& value = method.raw(key);
    if (value.is_number()) text << (text.tellp() > 0 ? ", " : "") << key << " " << value;
  };
  add("sparsity");
  add("size");
  if (method.text("allocate") == "auto") text << ", allocated";
  return text.str();
}

std::vector<std::string> read_warnings(const json& document, const std::string& origin) {
  if (!document.contains("warnings")) return {};
  try {
    return document.at("warnings").get<std::vector<std::string>>();
  } catch (const json::exception& error) {
    throw InputError(origin + ": warnings: " + json_fault(error));
  }
}

}  // namespace

v1::ModelSize to_message(const ModelReport& model) {
  v1::ModelSize size;
  size.set_parameters(model.parameters);
  size.set_bytes(model.bytes);
  size.set_perplexity(model.perplexity.value_or(0.0));
  if (model.kl) size.set_kl(*model.kl);
  if (model.agreement) size.set_agreement(*model.agreement);
  return size;
}

NetSize net_size(const Report& report) {
  return {report.dense.parameters, report.dense.bytes, report.compressed.parameters,
          report.compressed.bytes};
}

std::vector<std::string> warnings_of(const Report& report) {
  std::vector<std::string> warnings;
  const std::string larger = size_warning(net_size(report), report.job);
  if (!larger.empty()) warnings.push_back(larger);
  const std::string worse = prediction_warning(report);
  if (!worse.empty()) warnings.push_back(worse);
  const std::string useless = perplexity_warning(report);
  if (!useless.empty()) warnings.push_back(useless);
  for (const JunctionReport& junction : report.junctions) {
    if (junction.sinkhorn_converged.value_or(true)) continue;
    warnings.push_back("junction " + junction.name + ": Sinkhorn did not converge in " +
                       std::to_string(*junction.sinkhorn_iterations) +
                       " iterations; its map was accepted as the job asked");
  }
  for (const MlpReport& mlp : report.mlps) {
    if (mlp.unseen_experts == 0) continue;
    warnings.push_back(mlp.name + ": no calibration token has chosen " +
                       std::to_string(mlp.unseen_experts) +
                       " of its experts, whose features were cut by the size of down's columns");
  }
  return warnings;
}

std::string report_to_json(const Report& report) {
  const ResolvedJob& job = report.job;
  json document = {{"schema_version", kSchemaVersion},
                   {"tool_version", report.tool_version},
                   {"name", job.name},
                   {"model", {{"path", job.model.name}, {"dtype", to_string(job.model.dtype)}}},
                   {"output", {{"path", job.output.name}, {"dtype", to_string(job.output.dtype)}}},
                   {"method", method_json(job, report.widths)},
                   {"calibration", calibration_json(report)},
                   {"device", to_string(job.resources.device)},
                   {"compute_dtype", to_string(job.resources.compute_dtype)},
                   {"junctions", json::array()},
                   {"dense", model_json(report.dense)},
                   {"compressed", compressed_json(report)},
                   {"ranks", json::array()},
                   {"wall_time_s", report.wall_time_s},
                   {"fingerprints", report.fingerprints},
                   {"warnings", report.warnings}};
  set_if(document["output"], "model_type", job.output.stock_family);
  if (job.evaluation) {
    json& evaluation = document["evaluation"] =
        source_json(*job.evaluation, report.evaluation_tokens);
    set_if(evaluation, "seqlen", report.evaluation_seqlen);
    evaluation["predicted_tokens"] = report.evaluation_tokens;
    if (job.evaluation->unused_windows) evaluation["beside_calibration"] = true;
  }
  for (const auto& junction : report.junctions) document["junctions"].push_back(to_json(junction));
  for (const auto& rank : report.ranks) document["ranks"].push_back(to_json(rank));
  if (!report.shortcuts.empty()) document["shortcuts"] = json::array();
  for (const auto& shortcut : report.shortcuts) document["shortcuts"].push_back(to_json(shortcut));
  if (report.allocation) document["allocation"] = allocation_json(report);
  if (job.healing) document["heal"] = heal_json(report);
  if (!report.mlps.empty()) document["mlps"] = json::array();
  for (const auto& mlp : report.mlps) document["mlps"].push_back(to_json(mlp));
  for (const auto& attention : report.attentions) {
    document["attentions"].push_back(to_json(attention));
  }
  // Paths need not be UTF-8, JSON must be.
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

ReportSummary read_report_summary(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / kReportDirectory / kReportFile;
  return report_summary(read_json_object(path, kMaxReportBytes), path.string());
}

ReportSummary report_summary(const json& document, const std::string& origin) {
  const ConfigFields root(document, origin);
  root.required_integer("schema_version", kSchemaVersion, kSchemaVersion);
  const auto method = root.object("method");
  if (!method) root.fail("method", "is missing");

  ReportSummary summary;
  summary.name = root.text("name").value_or("");
  summary.method = method->text("name").value_or("");
  if (summary.method.empty()) method->fail("name", "is missing");
  summary.width = method->required_integer("width", 1, kAny);
  summary.width_range = read_width_range(document, origin, summary.width);
  summary.target = read_target(*method);
  summary.stock = method->text("map_sharing") == "model";
  summary.hidden_size = method->integer("hidden_size", 1, kAny);
  summary.dense = read_model_report(root, "dense");
  summary.compressed = read_model_report(root, "compressed");
  summary.wall_time_s = root.required_positive("wall_time_s", 1e12);
  summary.compute_dtype = root.text("compute_dtype").value_or("");
  if (const auto evaluation = root.object("evaluation")) {
    summary.evaluation_seqlen = evaluation->integer("seqlen", 2, kAny);
  }
  summary.fingerprints = read_fingerprints(root);
  summary.warnings = read_warnings(document, origin);
  return summary;
}

}  // namespace dotresize
