#include "job/spec/yaml_file.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "base/text/encodings.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

constexpr std::size_t kMaxFaultsShown = 50;

/// Replaces surrogate pairs in JSON text by their characters, because yaml-cpp reads a pair as two
/// characters. Line numbers do not change.
std::string without_surrogate_pairs(const std::string& text) {
  if (!nlohmann::json::accept(text)) return text;
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = std::string_view(text).substr(i);
    const bool high = rest.starts_with("\\ud") || rest.starts_with("\\uD");
    if (high && std::string_view("89abAB").find(rest[3]) != std::string_view::npos) {
      result +=
          nlohmann::json::parse('"' + std::string(rest.substr(0, 12)) + '"').get<std::string>();
      i += 12;
    } else {
      const std::size_t length = rest[0] == '\\' ? 2 : 1;  // an escaped backslash is one unit
      result += rest.substr(0, length);
      i += length;
    }
  }
  return result;
}

/// Records the position at which a document begins.
class FirstNode final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { take(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { take(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string&) override {
    take(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    take(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    take(mark);
  }
  void OnMapEnd() override {}

  int line() const { return first_ ? first_->line : 0; }

 private:
  void take(const YAML::Mark& mark) {
    if (!first_) first_ = mark;
  }

  std::optional<YAML::Mark> first_;
};

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::vector<std::string> keys_of(const Descriptor& descriptor) {
  std::vector<std::string> keys;
  keys.reserve(static_cast<size_t>(descriptor.field_count()));
  for (int i = 0; i < descriptor.field_count(); ++i) keys.push_back(descriptor.field(i)->name());
  return keys;
}

}  // namespace

YAML::Node nested(const std::string& key, const YAML::Node& node) {
  // Limit above the depth of any job key. Further dots stay in the last part, which is then an
  // unknown key. Each map costs more than the one inside it.
  constexpr std::size_t kMostParts = 8;
  std::vector<std::size_t> begins = {0};
  while (begins.size() < kMostParts) {
    const std::size_t dot = key.find('.', begins.back());
    if (dot == std::string::npos) break;
    begins.push_back(dot + 1);
  }
  YAML::Node inner = node;
  for (std::size_t end = key.size(); !begins.empty(); begins.pop_back()) {
    YAML::Node outer;
    outer[key.substr(begins.back(), end - begins.back())] = inner;
    inner.reset(outer);  // an assignment would change the node itself
    end = begins.back() - 1;
  }
  return inner;
}

bool is_utf8(const std::string& text) {
  try {
    nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

void throw_faults(const std::string& origin, std::vector<Fault> faults) {
  std::ranges::stable_sort(faults, {}, &Fault::line);
  std::string message;
  for (std::size_t i = 0; i < std::min(faults.size(), kMaxFaultsShown); ++i) {
    const Fault& fault = faults[i];
    message += (i == 0 ? "" : "\n") +
               (fault.place.empty() ? origin + ":" + std::to_string(fault.line) : fault.place) +
               ": " + (fault.key.empty() ? "" : fault.key + ": ") + fault.what;
  }
  if (faults.size() > kMaxFaultsShown) {
    message +=
        "\n" + origin + ": and " + std::to_string(faults.size() - kMaxFaultsShown) + " more faults";
  }
  throw FileFaults(message, std::move(faults));
}

YAML::Node load_yaml(const std::string& given, const std::string& origin) {
  // yaml-cpp reads a text with NUL bytes as UTF-16 or UTF-32, and may not terminate.
  if (!is_utf8(given) || given.find('\0') != std::string::npos) {
    throw_faults(origin, {{1, "", "is not UTF-8 text"}});
  }
  std::string text = without_surrogate_pairs(given);
  // Trailing newlines are removed, because yaml-cpp overlooks an open quote before one.
  text.resize(text.find_last_not_of("\r\n") + 1);
  YAML::Node document;
  std::optional<int> second;  // line on which a second document begins
  try {
    document.reset(YAML::Load(text));
    // YAML::LoadAll() would read all documents: some texts, such as one that begins with a comma,
    // give endless documents.
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    FirstNode first;
    FirstNode next;
    if (parser.HandleNextDocument(first) && parser.HandleNextDocument(next)) second = next.line();
  } catch (const YAML::DeepRecursion& error) {
    throw_faults(origin, {{error.mark.line + 1, "", "is nested too deeply"}});
  } catch (const YAML::Exception& error) {
    throw_faults(origin, {{error.mark.line + 1, "", "is not valid YAML: " + error.msg}});
  }
  if (document.IsNull()) throw_faults(origin, {{1, "", "is empty"}});
  if (second)
    throw_faults(origin, {{*second + 1, "", "a second YAML document; only one is allowed"}});
  if (!document.IsMap()) {
    throw_faults(origin, {{document.Mark().line + 1, "", "must be a map, starting with a key"}});
  }
  return document;
}

void read_yaml_text(const std::string& text, const std::string& origin, YamlMessageReader& reader,
                    google::protobuf::Message& message) {
  reader.read(load_yaml(text, origin), message);
  if (!reader.faults.empty()) throw_faults(origin, reader.faults);
}

void YamlMessageReader::read(const YAML::Node& root, Message& message) {
  read_map(root, "", message);
}

int line_of(const KeyLines& lines, const std::string& key) {
  const int* line = nearest(lines, key);
  return line == nullptr ? 1 : *line;
}

void YamlMessageReader::read_map(const YAML::Node& node, const std::string& prefix,
                                 Message& message) {
  const Descriptor& descriptor = *message.GetDescriptor();
  std::set<std::string> seen;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) {
      add_fault(entry.first, prefix + "?", "a key must be a word");
      continue;
    }
    const std::string& name = entry.first.Scalar();
    const FieldDescriptor* field = descriptor.FindFieldByName(name);
    const std::string key = prefix + name;
    if (field == nullptr) {
      constexpr std::size_t kMaxKey = 100;
      const bool word = !name.empty() && name.size() <= kMaxKey && is_plain_word(name, "_-");
      const std::vector<std::string> known = keys_of(descriptor);
      const std::string suggestion = closest(name, known);
      add_fault(entry.first, prefix + (word ? name : in_quotes(name)),
                suggestion.empty() ? "unknown key; the keys here are " + listed(known)
                                   : "unknown key, did you mean '" + suggestion + "'?");
    } else if (!seen.insert(name).second) {
      add_fault(entry.first, key, "is given twice, first in line " + std::to_string(lines.at(key)));
    } else {
      lines[key] = entry.first.Mark().line + 1;
      read_field(entry.second, key, *field, message);
    }
  }
}

void YamlMessageReader::read_field(const YAML::Node& node, const std::string& key,
                                   const FieldDescriptor& field, Message& message) {
  if (node.IsNull()) return;
  if (field.is_repeated()) {
    read_strings(node, key, field, message);
  } else if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    read_scalar(node, key, field, message);
  } else if (!node.IsMap()) {
    add_fault(node, key,
              "must be a section with the keys " + listed(keys_of(*field.message_type())));
  } else {
    read_map(node, key + ".", *message.GetReflection()->MutableMessage(&message, &field));
  }
}

void YamlMessageReader::read_strings(const YAML::Node& node, const std::string& key,
                                     const FieldDescriptor& field, Message& message) {
  if (!node.IsSequence()) {
    add_fault(node, key, "must be a list, as in [a.txt, b.txt]");
    return;
  }
  for (const YAML::Node& element : node) {
    if (element.IsScalar()) {
      message.GetReflection()->AddString(&message, &field, element.Scalar());
    } else {
      add_fault(element, key, "every entry of the list must be a text");
    }
  }
}

void YamlMessageReader::read_scalar(const YAML::Node& node, const std::string& key,
                                    const FieldDescriptor& field, Message& message) {
  if (!node.IsScalar()) {
    const char* kind = node.IsMap() ? "map" : "list";
    return add_fault(node, key, std::string("must be one value, not a ") + kind);
  }
  const auto refuse = [&](const std::string& what) {
    add_fault(node, key, in_quotes(node.Scalar()) + " is not " + what);
  };
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  // Quotes make a text: "0.2" is no number.
  const std::string text = node.Tag() == "!" ? "" : node.Scalar();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(&message, &field, node.Scalar());
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      if (text != "true" && text != "false") return refuse("true or false");
      reflection.SetBool(&message, &field, text == "true");
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (const auto value = parse_number<double>(text); value && std::isfinite(*value)) {
        reflection.SetDouble(&message, &field, *value);
      } else {
        refuse("a finite number");
      }
      return;
    case FieldDescriptor::CPPTYPE_UINT32:
      if (const auto value = parse_number<uint32_t>(text)) {
        reflection.SetUInt32(&message, &field, *value);
      } else {
        refuse("a whole number from 0 to 4294967295");
      }
      return;
    case FieldDescriptor::CPPTYPE_ENUM:
      if (const auto* value = field.enum_type()->FindValueByName(node.Scalar())) {
        reflection.SetEnum(&message, &field, value);
      } else {
        std::vector<std::string> names;
        names.reserve(static_cast<size_t>(field.enum_type()->value_count()));
        for (int i = 0; i < field.enum_type()->value_count(); ++i) {
          names.push_back(field.enum_type()->value(i)->name());
        }
        refuse("one of " + listed(names));
      }
      return;
    default:
      throw std::logic_error(key + ": fields of this type are not supported in job files");
  }
}

void YamlMessageReader::add_fault(const YAML::Node& node, const std::string& key,
                                  const std::string& what) {
  const int line = node.Mark().is_null() ? line_of(lines, key) : node.Mark().line + 1;
  faults.push_back({line, key, what});
}

}  // namespace dotresize
