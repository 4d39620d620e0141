#include "client/display/verb_output.h"

#include <google/protobuf/util/json_util.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/text/printable.h"

namespace dotresize {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using nlohmann::ordered_json;

void make_numbers(ordered_json& object, const Descriptor& descriptor);

void make_number(ordered_json& value, const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      value = std::stoll(value.get<std::string>());
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      value = std::stoull(value.get<std::string>());
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (value.is_object()) make_numbers(value, *field.message_type());
      break;
    default:
      break;
  }
}

/// Converts 64-bit integers to numbers. Protobuf writes strings, because JavaScript would round.
void make_numbers(ordered_json& object, const Descriptor& descriptor) {
  for (auto& [name, value] : object.items()) {
    const FieldDescriptor* field = descriptor.FindFieldByName(name);
    if (field == nullptr) continue;
    if (!field->is_repeated()) {
      make_number(value, *field);
    } else {
      for (ordered_json& element : value) make_number(element, *field);
    }
  }
}

/// Escapes the text for use between the quotes of a JSON string.
std::string json_text(std::string_view text) {
  using Json = nlohmann::json;
  const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

ordered_json to_json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok())
    throw std::runtime_error("no JSON for the server's answer: " + status.ToString());
  ordered_json object = ordered_json::parse(text);
  make_numbers(object, *message.GetDescriptor());
  return object;
}

ordered_json to_json(const std::vector<v1::Job>& jobs) {
  ordered_json list = ordered_json::array();
  for (const v1::Job& job : jobs) list.push_back(to_json(job));
  return {{"jobs", std::move(list)}};
}

ordered_json error_json(const std::string& code, const std::string& message, int exit_code,
                        const std::vector<FieldViolation>& violations) {
  ordered_json error = {{"code", code}, {"message", message}, {"exit_code", exit_code}};
  for (const FieldViolation& violation : violations) {
    error["violations"].push_back(
        {{"field", violation.field}, {"description", violation.description}});
  }
  return {{"error", std::move(error)}};
}

void print_json(const ordered_json& document) {
  std::cout << document.dump(2, ' ', false, ordered_json::error_handler_t::replace) << "\n";
}

void print_json_line(const ordered_json& document) {
  std::cout << document.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << std::endl;
}

void LogOutput::add(std::string_view piece, bool last) {
  if (!std::exchange(begun, true) && form == Form::kJson) {
    out << "{\n  \"id\": \"" << json_text(id) << "\",\n  \"log\": \"";
  }
  rest += piece;
  const size_t incomplete = last || form == Form::kBytes ? 0 : begun_character(rest);
  const std::string whole = rest.substr(0, rest.size() - incomplete);
  if (form == Form::kBytes) out << whole;
  if (form == Form::kTerminal) out << printable_lines(whole);
  if (form == Form::kJson) out << json_text(whole);
  rest.erase(0, whole.size());
  out << std::flush;
}

void LogOutput::finish(const RpcError* error) {
  add("", /*last=*/true);
  if (form != Form::kJson) return;
  out << "\"";
  if (error != nullptr) {
    const auto said =
        error_json(code_name(error->code()), error->what(), exit_code_for(error->code()), {});
    out << ",\n  \"error\": " << said.at("error").dump();
  }
  out << "\n}\n" << std::flush;
}

}  // namespace dotresize
