#include "client/display/log_output.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/text/printable.h"
#include "client/display/json_output.h"

namespace dotresize {
namespace {

/// Escapes the text for use between the quotes of a JSON string.
std::string json_text(std::string_view text) {
  using Json = nlohmann::json;
  const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

LogOutput::LogOutput(std::ostream& out, Form form, std::string id)
    : out_(out), form_(form), id_(std::move(id)) {}

void LogOutput::begin() {
  if (begun_) return;
  begun_ = true;
  if (form_ == Form::kJson) out_ << "{\n  \"id\": \"" << json_text(id_) << "\",\n  \"log\": \"";
}

void LogOutput::print(std::string_view characters) {
  if (form_ == Form::kBytes) out_ << characters;
  if (form_ == Form::kTerminal) out_ << printable_lines(characters);
  if (form_ == Form::kJson) out_ << json_text(characters);
}

void LogOutput::add(std::string_view piece) {
  begin();
  rest_ += piece;
  const size_t whole = rest_.size() - (form_ == Form::kBytes ? 0 : begun_character(rest_));
  print(std::string_view(rest_).substr(0, whole));
  rest_.erase(0, whole);
  out_ << std::flush;
}

void LogOutput::finish() {
  begin();
  print(rest_);
  if (form_ == Form::kJson) out_ << "\"\n}\n";
  out_ << std::flush;
}

void LogOutput::finish(const RpcError& error) {
  print(rest_);
  if (form_ != Form::kJson) return;
  const auto said =
      error_json(code_name(error.code()), error.what(), exit_code_for(error.code()), {});
  out_ << "\",\n  \"error\": " << said.at("error").dump() << "\n}\n" << std::flush;
}

}  // namespace dotresize
