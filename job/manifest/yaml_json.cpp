#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string_view>

#include "base/errors.h"
#include "base/text/printable.h"
#include "job/manifest/mpi_job.h"
#include "job/spec/yaml_file.h"

namespace dotresize {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kMaxValues = 100'000;
constexpr int kMaxDepth = 64;

struct Converter {
  const std::string& origin;
  int values = 0;

  OrderedJson convert(const YAML::Node& node, int depth) {
    if (++values > kMaxValues || depth > kMaxDepth) {
      fail(node, "has too many values, or too many levels of them");
    }
    if (node.IsScalar()) return scalar(node);
    if (node.IsMap()) return map(node, depth);
    if (!node.IsSequence()) return nullptr;
    OrderedJson list = OrderedJson::array();
    for (const YAML::Node& item : node) list.push_back(convert(item, depth + 1));
    return list;
  }

  [[noreturn]] void fail(const YAML::Node& node, const std::string& what) const {
    throw InputError(origin + ":" + std::to_string(node.Mark().line + 1) + ": " + what);
  }

  static OrderedJson scalar(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    if (node.Tag() != "?") return text;  // quoted
    if (text == "true" || text == "false") return text == "true";
    int64_t integer = 0;
    if (YAML::convert<int64_t>::decode(node, integer)) return integer;
    double number = 0;
    if (YAML::convert<double>::decode(node, number) && std::isfinite(number)) return number;
    return text;
  }

  OrderedJson map(const YAML::Node& node, int depth) {
    OrderedJson object = OrderedJson::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) fail(entry.first, "a key must be a text");
      const std::string& key = entry.first.Scalar();
      if (object.contains(key)) fail(entry.first, in_quotes(key) + " is given twice");
      object[key] = convert(entry.second, depth + 1);
    }
    return object;
  }
};

/// Returns true if YAML (also 1.1) reads the unquoted text as this string.
bool is_plain(const std::string& text) {
  constexpr std::array<std::string_view, 9> kWords = {"true", "false", "yes", "no", "on",
                                                      "off",  "null",  "y",   "n"};
  const size_t begin = text.find_first_not_of('-');
  if (begin == std::string::npos || begin > 2 || text.back() == ':') return false;
  const bool letter = std::isalpha(static_cast<unsigned char>(text[begin])) != 0;
  if ((!letter && text[begin] != '/') || !is_plain_word(text, "-_./:=")) return false;
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::find(kWords, lower) == kWords.end();
}

void emit_text(YAML::Emitter& out, const std::string& text) {
  if (is_plain(text)) {
    out << text;
  } else if (is_printable(text) && text.find('"') != std::string::npos) {
    out << YAML::SingleQuoted << text;
  } else {
    out << YAML::DoubleQuoted << text;
  }
}

void emit(YAML::Emitter& out, const OrderedJson& value) {
  if (value.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, member] : value.items()) {
      out << YAML::Key;
      emit_text(out, key);
      out << YAML::Value;
      emit(out, member);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    const bool flat = std::none_of(value.begin(), value.end(),
                                   [](const OrderedJson& item) { return item.is_structured(); });
    if (flat) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (const OrderedJson& item : value) emit(out, item);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    emit_text(out, value.get_ref<const std::string&>());
  } else if (value.is_null()) {
    out << YAML::Null;
  } else {
    out << value.dump();
  }
}

}  // namespace

OrderedJson json_of_yaml(const std::string& text, const std::string& origin) {
  const YAML::Node root = load_yaml(text, origin);
  return Converter{origin}.convert(root, 0);
}

std::string yaml_of_json(const OrderedJson& document) {
  YAML::Emitter out;
  emit(out, document);
  return std::string(out.c_str()) + "\n";
}

}  // namespace dotresize
