#include "job/page/page_data.h"

#include <openssl/evp.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/text/printable.h"

namespace dotresize {
namespace {

using Json = nlohmann::ordered_json;

Json axis_json(const Axis& axis) {
  return {{"title", axis.title}, {"log", axis.log}, {"fromZero", axis.from_zero}};
}

Json series_json(const Series& series) {
  Json points = Json::array();
  for (const Point& point : series.points) {
    Json entry = {{"x", point.x}, {"y", point.y}};
    if (!point.label.empty()) entry["label"] = point.label;
    points.push_back(std::move(entry));
  }
  return {{"name", series.name},
          {"line", series.line},
          {"marks", series.marks},
          {"points", std::move(points)}};
}

}  // namespace

std::string figures_json(const std::vector<Figure>& figures) {
  Json all = Json::object();
  for (const Figure& figure : figures) {
    Json& object = all[figure.id] = {{"bars", figure.bars},
                                     {"x", axis_json(figure.x)},
                                     {"y", axis_json(figure.y)},
                                     {"series", Json::array()}};
    if (!figure.categories.empty()) object["categories"] = figure.categories;
    for (const Series& series : figure.series) object["series"].push_back(series_json(series));
  }
  return script_json(all);
}

// Only its end tag ends a script element in HTML, and JSON has < > & only inside strings.
std::string script_json(const Json& value) {
  std::string text;
  for (const char c : value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&') {
      text += "\\u00" + hex_digits(std::string_view(&c, 1));
    } else {
      text += c;
    }
  }
  return text;
}

std::string content_hash(std::string_view content) {
  std::array<char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  if (EVP_Digest(content.data(), content.size(), reinterpret_cast<unsigned char*>(digest.data()),
                 &length, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("OpenSSL has no SHA-256");
  }
  return base64({digest.data(), length});
}

}  // namespace dotresize
