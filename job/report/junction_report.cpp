#include "job/report/junction_report.h"

#include "job/report/json_fields.h"

namespace dotresize {

using nlohmann::json;

json to_json(const JunctionReport& junction) {
  json object = {{"name", junction.name}, {"width", junction.width}, {"mapped", junction.mapped}};
  if (!junction.mapped) return object;
  object["effective_rank"] = junction.effective_rank;
  object["retained_energy"] = junction.retained_energy;
  set_if(object, "qr_condition", junction.qr_condition);
  if (junction.cost_dtype) object["cost_dtype"] = to_string(*junction.cost_dtype);
  set_if(object, "cost_error", junction.cost_error);
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
  get_if(object, "qr_condition", junction.qr_condition);
  if (object.contains("cost_dtype")) {
    junction.cost_dtype = find_dtype(object.at("cost_dtype").get<std::string>());
  }
  get_if(object, "cost_error", junction.cost_error);
  if (object.contains("sinkhorn")) {
    const json& sinkhorn = object.at("sinkhorn");
    get_if(sinkhorn, "iterations", junction.sinkhorn_iterations);
    get_if(sinkhorn, "violation", junction.sinkhorn_violation);
    get_if(sinkhorn, "converged", junction.sinkhorn_converged);
  }
  return junction;
}

}  // namespace dotresize
