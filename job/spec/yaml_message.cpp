#include "job/spec/yaml_message.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>

#include "base/text/human_text.h"
#include "base/text/parse_number.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::vector<std::string> keys_of(const Descriptor& descriptor) {
  std::vector<std::string> keys;
  keys.reserve(static_cast<size_t>(descriptor.field_count()));
  for (int i = 0; i < descriptor.field_count(); ++i) keys.push_back(descriptor.field(i)->name());
  return keys;
}

std::vector<std::string> values_of(const EnumDescriptor& descriptor) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(descriptor.value_count()));
  for (int i = 0; i < descriptor.value_count(); ++i) names.push_back(descriptor.value(i)->name());
  return names;
}

std::string unknown_key(const std::string& key, const Descriptor& descriptor) {
  const std::vector<std::string> known = keys_of(descriptor);
  const std::string suggestion = closest(key, known);
  return suggestion.empty() ? "unknown key; the keys here are " + listed(known)
                            : "unknown key, did you mean '" + suggestion + "'?";
}

/// Returns the name as written if it could be a key, else in quotes.
std::string shown_key(const std::string& name) {
  constexpr std::size_t kMaxKey = 100;
  const bool word = !name.empty() && name.size() <= kMaxKey && is_plain_word(name, "_-");
  return word ? name : in_quotes(name);
}

/// Parses an unquoted number: "0.2" in quotes is a text.
template <class Number>
std::optional<Number> plain_number(const YAML::Node& node) {
  return node.Tag() == "!" ? std::nullopt : parse_number<Number>(node.Scalar());
}

std::optional<bool> plain_bool(const YAML::Node& node) {
  if (node.Tag() == "!") return std::nullopt;
  if (node.Scalar() == "true") return true;
  if (node.Scalar() == "false") return false;
  return std::nullopt;
}

}  // namespace

void YamlMessageReader::read(const YAML::Node& root, Message& message) {
  read_map(root, "", message);
}

int line_of(const KeyLines& lines, const std::string& key) {
  std::string at = key;
  while (!at.empty()) {
    if (const auto found = lines.find(at); found != lines.end()) return found->second;
    const std::size_t dot = at.rfind('.');
    at.resize(dot == std::string::npos ? 0 : dot);
  }
  return 1;
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
      add_fault(entry.first, prefix + shown_key(name), unknown_key(name, descriptor));
    } else if (!seen.insert(name).second) {
      add_fault(entry.first, key,
                "is given twice, first in line " + std::to_string(lines_.at(key)));
    } else {
      lines_[key] = entry.first.Mark().line + 1;
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
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(&message, &field, node.Scalar());
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      if (const auto value = plain_bool(node)) {
        reflection.SetBool(&message, &field, *value);
      } else {
        refuse("true or false");
      }
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (const auto value = plain_number<double>(node); value && std::isfinite(*value)) {
        reflection.SetDouble(&message, &field, *value);
      } else {
        refuse("a finite number");
      }
      return;
    case FieldDescriptor::CPPTYPE_UINT32:
      if (const auto value = plain_number<uint32_t>(node)) {
        reflection.SetUInt32(&message, &field, *value);
      } else {
        refuse("a whole number from 0 to 4294967295");
      }
      return;
    case FieldDescriptor::CPPTYPE_ENUM:
      if (const auto* value = field.enum_type()->FindValueByName(node.Scalar())) {
        reflection.SetEnum(&message, &field, value);
      } else {
        refuse("one of " + listed(values_of(*field.enum_type())));
      }
      return;
    default:
      throw std::logic_error(key + ": fields of this type are not supported in job files");
  }
}

void YamlMessageReader::add_fault(const YAML::Node& node, const std::string& key,
                                  const std::string& what) {
  const int line = node.Mark().is_null() ? line_of(lines_, key) : node.Mark().line + 1;
  faults_.push_back({line, key, what});
}

}  // namespace dotresize
