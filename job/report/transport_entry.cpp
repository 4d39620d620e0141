#include "job/report/transport_entry.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text/checked_json.h"
#include "base/text/encodings.h"
#include "job/model/config_fields.h"

namespace dotresize {
namespace {

using nlohmann::json;

constexpr int64_t kMaxChannels = int64_t{1} << 31;
constexpr double kMaxMass = 2.0;  // a plan that has not converged may have a mass above 1

double required_number(const ConfigFields& fields, const char* key, double low, double high) {
  const auto value = fields.number(key, low, high);
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
  picture.stays = required_number(fields, "stays", 0.0, 1.0);
  picture.kept_targets = required_number(fields, "kept_targets", 0.0, kMaxChannels);
  picture.merged_targets = fields.number("merged_targets", 0.0, kMaxChannels);
  return picture;
}

}  // namespace dotresize
