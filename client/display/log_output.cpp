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
