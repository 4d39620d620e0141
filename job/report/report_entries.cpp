#include "job/report/report_entries.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/errors.h"
#include "base/text/checked_json.h"
#include "base/text/encodings.h"
#include "base/text/printable.h"
#include "job/model/config_fields.h"

namespace dotresize {

using nlohmann::json;

namespace {

constexpr int64_t kMaxChannels = int64_t{1} << 31;
constexpr double kMaxMass = 2.0;  // a plan that has not converged may have a mass above 1

double required_number(const ConfigFields& fields, const char* key, double high) {
  const auto value = fields.number(key, 0.0, high);
  if (!value) fields.fail(key, "is missing");
  return *value;
}

}  // namespace

json to_json(const TransportPicture& picture) {
  const std::string_view levels(reinterpret_cast<const char*>(picture.levels.data()),
                                picture.levels.size());
  json object = {{"block", picture.block},
                 {"rows", picture.rows},
                 {"columns", picture.columns},
                 {"largest", picture.largest},
                 {"levels", base64(levels)},
                 {"stays", picture.stays},
                 {"kept_targets", picture.kept_targets}};
  set_if(object, "merged_targets", picture.merged_targets);
  return object;
}

TransportPicture transport_picture_from_json(const json& object, const std::string& origin) {
  const ConfigFields fields(object, origin, "transport.");
  TransportPicture picture;
  picture.block = fields.required_integer("block", 1, kMaxChannels);
  picture.rows = fields.required_integer("rows", 1, TransportPicture::kMaxRows);
  picture.columns = fields.required_integer("columns", 1, picture.rows);
  picture.largest = fields.required_positive("largest", kMaxMass);
  const auto cells = static_cast<size_t>(picture.rows * picture.columns);
  const auto levels = from_base64(fields.text("levels").value_or(""), cells);
  if (!levels) fields.fail("levels", "is not the base64 of " + std::to_string(cells) + " bytes");
  picture.levels.assign(levels->begin(), levels->end());
  picture.stays = required_number(fields, "stays", 1.0);
  picture.kept_targets = required_number(fields, "kept_targets", kMaxChannels);
  picture.merged_targets = fields.number("merged_targets", 0.0, kMaxChannels);
  return picture;
}

json to_json(const JunctionReport& junction) {
  json object = {{"name", junction.name}, {"width", junction.width}, {"mapped", junction.mapped}};
  if (!junction.mapped) return object;
  object["effective_rank"] = junction.effective_rank;
  object["retained_energy"] = junction.retained_energy;
  for (const auto& [rank, energy] : junction.spectrum) {
    object["spectrum"]["ranks"].push_back(rank);
    object["spectrum"]["energy"].push_back(energy);
  }
  set_if(object, "predicted_rise", junction.predicted_loss_increase);
  set_if(object, "qr_condition", junction.qr_condition);
  if (junction.transport) object["transport"] = to_json(*junction.transport);
  if (junction.sinkhorn_iterations) {
    json& sinkhorn = object["sinkhorn"] = {{"iterations", *junction.sinkhorn_iterations}};
    set_if(sinkhorn, "violation", junction.sinkhorn_violation);
    set_if(sinkhorn, "converged", junction.sinkhorn_converged);
  }
  return object;
}

JunctionReport junction_report_from_json(const json& object) {
  JunctionReport junction;
  junction.name = object.at("name");
  junction.width = object.at("width");
  junction.mapped = object.at("mapped");
  if (!junction.mapped) return junction;
  junction.effective_rank = object.at("effective_rank");
  junction.retained_energy = object.at("retained_energy");
  if (object.contains("spectrum")) {
    const json& ranks = object.at("spectrum").at("ranks");
    const json& energy = object.at("spectrum").at("energy");
    if (!ranks.is_array() || !energy.is_array() || ranks.size() != energy.size()) {
      throw InputError("junction " + in_quotes(junction.name) +
                       ": spectrum: ranks and energy must be lists of the same length");
    }
    for (size_t i = 0; i < ranks.size(); ++i) {
      junction.spectrum.emplace_back(ranks[i].get<int64_t>(), energy[i].get<double>());
    }
  }
  get_if(object, "predicted_rise", junction.predicted_loss_increase);
  get_if(object, "qr_condition", junction.qr_condition);
  if (object.contains("transport")) {
    junction.transport =
        transport_picture_from_json(object.at("transport"), "junction " + in_quotes(junction.name));
  }
  if (object.contains("sinkhorn")) {
    const json& sinkhorn = object.at("sinkhorn");
    get_if(sinkhorn, "iterations", junction.sinkhorn_iterations);
    get_if(sinkhorn, "violation", junction.sinkhorn_violation);
    get_if(sinkhorn, "converged", junction.sinkhorn_converged);
  }
  return junction;
}

std::vector<ShortcutReport> report_shortcuts(const ModelConfig& output) {
  std::vector<ShortcutReport> reports;
  if (!output.compressed || output.form.norm_weights) return reports;
  for (int64_t s = 0; s < output.num_sublayers(); ++s) {
    const auto in = static_cast<std::size_t>(s);
    const int64_t k_in = output.form.junction_widths.at(in);
    const int64_t k_out = output.form.junction_widths.at(in + 1);
    const ShortcutForm form = output.shortcut(s);
    reports.push_back({sublayer_name(s),
                       form.rank,
                       exact_shortcut_rank(k_in, k_out, output.hidden_size, form.factors),
                       shortcut_parameters(form, k_in, k_out),
                       {}});
  }
  return reports;
}

json to_json(const ShortcutReport& shortcut) {
  json object = {{"name", shortcut.name},
                 {"exact_rank", shortcut.exact_rank},
                 {"parameters", shortcut.parameters}};
  set_if(object, "rank", shortcut.rank);
  set_if(object, "predicted_rise", shortcut.predicted_loss_increase);
  return object;
}

ShortcutReport shortcut_report_from_json(const json& object) {
  ShortcutReport shortcut;
  shortcut.name = object.at("name");
  shortcut.exact_rank = object.at("exact_rank");
  shortcut.parameters = object.at("parameters");
  get_if(object, "rank", shortcut.rank);
  get_if(object, "predicted_rise", shortcut.predicted_loss_increase);
  return shortcut;
}

std::vector<int64_t> sizes_left(const std::vector<CutReport>& cuts, const Unit& unit) {
  std::vector<int64_t> left;
  bool found = false;
  for (const CutReport& cut : cuts) {
    if (cut.of_attention() != unit.of_attentions) continue;
    const auto size = std::ranges::find(cut.sizes, &unit, &CutReport::Size::unit);
    found = found || size != cut.sizes.end();
    left.push_back(size == cut.sizes.end() ? 0 : size->left);
  }
  return found ? left : std::vector<int64_t>();
}

json to_json(const CutReport& cut) {
  json object = {{"name", cut.name}, {"predicted_rise", cut.predicted_loss_increase}};
  for (const auto& [unit, left, source] : cut.sizes) {
    object[unit->report.left] = left;
    object[unit->report.source] = source;
  }
  if (!cut.of_attention()) object["unseen_experts"] = cut.unseen_experts;
  return object;
}

CutReport cut_report_from_json(const json& object, bool of_attention) {
  CutReport cut{object.at("name"), {}, object.at("predicted_rise")};
  for (const Unit* unit : kUnits) {
    if (unit->of_attentions != of_attention) continue;
    if (!cut.sizes.empty() && !object.contains(unit->report.left)) continue;
    cut.sizes.push_back({unit, object.at(unit->report.left), object.at(unit->report.source)});
  }
  if (!of_attention) cut.unseen_experts = object.at("unseen_experts");
  return cut;
}

json to_json(const RankReport& rank) {
  json object = {{"rank", rank.rank},
                 {"host", rank.host},
                 {"first_sublayer", rank.first_sublayer},
                 {"end_sublayer", rank.end_sublayer},
                 {"seconds", rank.seconds},
                 {"peak_memory_bytes", rank.peak_memory_bytes}};
  if (!rank.gpu.empty()) object["gpu"] = rank.gpu;
  set_if(object, "peak_device_memory_bytes", rank.peak_device_memory_bytes);
  set_if(object, "peak_device_allocated_bytes", rank.peak_device_allocated_bytes);
  if (rank.cost) {
    const double rate = rank.cost->pairs / rank.cost->seconds;
    json& cost = object["cost"] = {
        {"pairs", rank.cost->pairs}, {"seconds", rank.cost->seconds}, {"pairs_per_s", rate}};
    if (rank.cost->limit_pairs_per_s) {
      cost["limit_pairs_per_s"] = *rank.cost->limit_pairs_per_s;
      cost["share_of_limit"] = rate / *rank.cost->limit_pairs_per_s;
    }
  }
  return object;
}

RankReport rank_report_from_json(const json& object) {
  RankReport rank;
  rank.rank = object.at("rank");
  rank.host = object.at("host");
  rank.first_sublayer = object.at("first_sublayer");
  rank.end_sublayer = object.at("end_sublayer");
  rank.seconds = object.at("seconds").get<std::map<std::string, double>>();
  rank.peak_memory_bytes = object.at("peak_memory_bytes");
  rank.gpu = object.value("gpu", "");
  get_if(object, "peak_device_memory_bytes", rank.peak_device_memory_bytes);
  get_if(object, "peak_device_allocated_bytes", rank.peak_device_allocated_bytes);
  if (object.contains("cost")) {
    const json& cost = object.at("cost");
    rank.cost = {cost.at("pairs"), cost.at("seconds")};
    get_if(cost, "limit_pairs_per_s", rank.cost->limit_pairs_per_s);
  }
  return rank;
}

}  // namespace dotresize
