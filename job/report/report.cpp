#include "job/report/report.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/text/checked_json.h"
#include "base/text/human_text.h"
#include "dotresize/v1/jobs.pb.h"
#include "job/model/dtype_json.h"

namespace dotresize {
namespace {

using nlohmann::json;

json method_json(const ResolvedJob& job, const JunctionWidths& widths) {
  json method = {{"name", job.method.name},
                 {"width", widths.largest()},
                 {"hidden_size", job.model.hidden_size},
                 {"nominal_sparsity", widths.nominal_sparsity(job.model.hidden_size)},
                 {"head", job.maps.head_sliced ? "sliced" : "dense"},
                 {"map_sharing", job.maps.sharing()},
                 {"allow_larger", job.target.allow_larger}};
  if (!job.stock_output() && widths.mapped_count > 0) method["shortcuts"] = "exact";
  method["metric"] = to_string(job.maps.metric);
  set_if(method, "sparsity", job.target.sparsity);
  set_if(method, "size", job.target.size);
  if (job.target.allocation) {
    method["size"] = job.target.allocation->size;
    method["allocate"] = "auto";
    method["round_to"] = job.mlp->round_to;
  }
  if (job.mlp) {
    json& mlp = method["mlp"] = json::object();
    set_if(mlp, "sparsity", job.mlp->sparsity);
    if (job.mlp->allocated) {
      mlp["widths"] = "by_loss";  // they differ by layer; see `mlps`
    } else {
      if (job.mlp->width > 0) mlp["width"] = job.mlp->width;
      if (job.mlp->expert_width > 0) mlp["expert_width"] = job.mlp->expert_width;
    }
  }
  if (job.method.transport()) {
    method["lambda"] = job.maps.lambda;
    method["on_nonconvergence"] = job.maps.accept_nonconvergence ? "accept" : "fail";
  }
  return method;
}

/// Predicted KL of the whole output and of its parts, beside the measured KL.
json allocation_json(const Report& report) {
  const Allocation& allocation = *report.allocation;
  const double predicted = allocation.predicted_loss_increase();
  json object = {{"predicted_kl", predicted}};
  for (const bool of_attentions : {false, true}) {
    const std::vector<ChosenSize> chosen = allocation.in(of_attentions);
    if (chosen.empty()) continue;
    object[of_attentions ? "of_values" : "of_mlps"] = predicted_loss_increase(chosen);
  }
  for (const Unit* unit : kUnits) {
    const std::vector<int64_t> left = sizes_left(report.cuts, *unit);
    if (!left.empty()) object[unit->report.all] = left;
  }
  set_if(object, "held_out_kl", report.held_out_kl);
  if (report.compressed.kl) {
    object["measured_kl"] = *report.compressed.kl;
    object["predicted_over_measured"] = predicted / *report.compressed.kl;
  }
  return object;
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

json model_json(const ModelReport& model) {
  json object = {{"parameters", model.parameters}, {"bytes", model.bytes}};
  set_if(object, "perplexity", model.perplexity);
  set_if(object, "kl", model.kl);
  set_if(object, "agreement", model.agreement);
  return object;
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
  const std::string larger =
      size_warning(net_size(report), report.job, report.dense.dtypes, report.compressed.dtypes);
  if (!larger.empty()) warnings.push_back(larger);
  if (report.dense.perplexity && report.compressed.perplexity) {
    constexpr double kMostTimes = 10.0;  // above this the output is of no use
    const double times = *report.compressed.perplexity / *report.dense.perplexity;
    if (!(times < kMostTimes)) {
      warnings.push_back(
          fmt::format("the perplexity is {} times that of the dense model, {} for {}: the output "
                      "is of little use; a larger size, or method: {{size}} alone, costs less",
                      format_perplexity(times), format_perplexity(*report.compressed.perplexity),
                      format_perplexity(*report.dense.perplexity)));
    }
  }
  for (const JunctionReport& junction : report.junctions) {
    if (junction.sinkhorn_converged.value_or(true)) continue;
    warnings.push_back("junction " + junction.name + ": Sinkhorn did not converge in " +
                       std::to_string(*junction.sinkhorn_iterations) +
                       " iterations; its map was accepted as the job asked");
  }
  for (const CutReport& cut : report.cuts) {
    if (cut.unseen_experts == 0) continue;
    warnings.push_back(cut.name + ": no calibration token has chosen " +
                       std::to_string(cut.unseen_experts) +
                       " of its experts, whose features were cut by the size of down's columns");
  }
  return warnings;
}

std::string report_to_json(const Report& report) {
  const ResolvedJob& job = report.job;
  json document = {{"schema_version", kReportVersion},
                   {"tool_version", report.tool_version},
                   {"name", job.name},
                   {"model", dtypes_json(report.dense.dtypes)},
                   {"output", dtypes_json(report.compressed.dtypes)},
                   {"method", method_json(job, report.widths)},
                   {"calibration", calibration_json(report)},
                   {"device", to_string(job.resources.device)},
                   {"compute_dtype", to_string(job.resources.compute_dtype)},
                   {"junctions", json::array()},
                   {"dense", model_json(report.dense)},
                   {"compressed", model_json(report.compressed)},
                   {"ranks", json::array()},
                   {"wall_time_s", report.wall_time_s},
                   {"fingerprints", report.fingerprints},
                   {"files", report.files},
                   {"warnings", report.warnings}};
  document["model"]["path"] = job.model.name;
  document["output"]["path"] = job.output.name;
  set_if(document["output"], "model_type", job.output.stock_family);
  const NetSize size = net_size(report);
  document["compressed"]["parameters_fraction"] = size.parameters_fraction();
  document["compressed"]["bytes_fraction"] = size.bytes_fraction();
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
  if (report.quantisation) document["quantised_source"] = report.quantisation->name;
  if (report.wrapper) {
    const int64_t copied = report.wrapper->other_bytes;
    document["wrapper"] = {{"model_type", report.wrapper->model_type},
                           {"copied_tensors", report.wrapper->other_tensors},
                           {"copied_bytes", copied},
                           {"dense_bytes", report.dense.bytes + copied},
                           {"compressed_bytes", report.compressed.bytes + copied},
                           {"calibrated_on", "text"}};
  }
  if (report.allocation) document["allocation"] = allocation_json(report);
  if (job.healing) {
    json& heal = document["heal"] = {{"epochs", job.healing->epochs},
                                     {"learning_rate", job.healing->learning_rate},
                                     {"token_count", report.healing_tokens}};
    set_if(heal, "samples", job.healing->samples);
    if (report.healing) heal.update(json(*report.healing));
  }
  for (const CutReport& cut : report.cuts) {
    document[cut.of_attention() ? "attentions" : "mlps"].push_back(to_json(cut));
  }
  // Paths need not be UTF-8, JSON must be.
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace dotresize
