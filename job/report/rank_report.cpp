#include "job/report/rank_report.h"

#include "job/report/json_fields.h"

namespace dotresize {

using nlohmann::json;

namespace {

json cost_json(const CostReport& cost) {
  json object = {
      {"pairs", cost.pairs}, {"seconds", cost.seconds}, {"pairs_per_s", cost.pairs_per_s()}};
  if (cost.limit_pairs_per_s) {
    object["limit_pairs_per_s"] = *cost.limit_pairs_per_s;
    object["share_of_limit"] = cost.pairs_per_s() / *cost.limit_pairs_per_s;
  }
  return object;
}

CostReport cost_from_json(const json& object) {
  CostReport cost{object.at("pairs"), object.at("seconds")};
  get_if(object, "limit_pairs_per_s", cost.limit_pairs_per_s);
  return cost;
}

}  // namespace

json to_json(const RankReport& rank) {
  json object = {{"rank", rank.rank},
                 {"host", rank.host},
                 {"first_sublayer", rank.first_sublayer},
                 {"end_sublayer", rank.end_sublayer},
                 {"seconds", rank.seconds},
                 {"peak_memory_bytes", rank.peak_memory_bytes}};
  if (!rank.gpu.empty()) object["gpu"] = rank.gpu;
  set_if(object, "peak_device_memory_bytes", rank.peak_device_memory_bytes);
  if (rank.cost) object["cost"] = cost_json(*rank.cost);
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
  if (object.contains("cost")) rank.cost = cost_from_json(object.at("cost"));
  return rank;
}

}  // namespace dotresize
