#include "job/spec/yaml_message.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <stdexcept>

#include "base/text/human_text.h"
#include "base/text/parse_number.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

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
