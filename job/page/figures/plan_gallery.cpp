#include "job/page/figures/plan_gallery.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "job/page/page_data.h"

namespace dotresize {
namespace {

using Json = nlohmann::ordered_json;

template <class Bytes>
std::string base64_of(const Bytes& bytes) {
  return base64({reinterpret_cast<const char*>(bytes.data()),
                 bytes.size() * sizeof(typename Bytes::value_type)});
}

Json plan_json(const Plan& plan, const ColourScale& scale) {
  const TransportPicture& picture = plan.picture;
  return {{"name", plan.name},
          {"text", plan.text},
          {"block", picture.block},
          {"rows", picture.rows},
          {"columns", picture.columns},
          {"largest", picture.largest},
          {"shift", scale.shift_of(picture)},
          {"levels", base64_of(picture.levels)}};
}

}  // namespace

std::vector<const TransportPicture*> pictures_of(const PlanGallery& gallery) {
  std::vector<const TransportPicture*> pictures;
  for (const Plan& plan : gallery.plans) pictures.push_back(&plan.picture);
  return pictures;
}

std::set<size_t> shown_plans(const PlanGallery& gallery) {
  const size_t count = gallery.plans.size();
  return {0, count / 2, count - 1};
}

std::string scientific(double value) {
  constexpr std::string_view kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  const std::string plain = fmt::format("{:.1e}", value);
  const size_t e = plain.find('e');
  const int power = std::stoi(plain.substr(e + 1));
  std::string text = plain.substr(0, e) + (power < 0 ? "·10⁻" : "·10");
  for (const char digit : std::to_string(std::abs(power))) text += kDigits[digit - '0'];
  return text;
}

std::string csv_of(const TransportPicture& picture) {
  std::string text = "first channel";
  for (int64_t column = 0; column < picture.columns; ++column) {
    text += fmt::format(",{}", column * picture.block);
  }
  for (int64_t row = 0; row < picture.rows; ++row) {
    const bool kept = row < picture.columns;
    text += fmt::format("\n{} {}", kept ? "kept" : "merged",
                        (kept ? row : row - picture.columns) * picture.block);
    for (int64_t column = 0; column < picture.columns; ++column) {
      const auto at = static_cast<size_t>(row * picture.columns + column);
      text += fmt::format(",{:.3e}", mass_of_level(picture.levels[at], picture.largest));
    }
  }
  return text + "\n";
}

std::string plans_json(const PlanGallery& gallery, const ColourScale& scale) {
  Json plans = Json::array();
  for (const Plan& plan : gallery.plans) plans.push_back(plan_json(plan, scale));
  return script_json({{"palette", base64_of(scale.palette())}, {"plans", std::move(plans)}});
}

}  // namespace dotresize
