#include "worker/checkpoint/strict_json.h"

#include <cstring>

#include "base/errors.h"
#include "base/text/checked_json.h"

namespace dotresize {
bool StrictJsonHandler::parse_error(size_t, const std::string&,
                                    const nlohmann::json::exception& error) {
  throw InputError(origin_ + ": not valid JSON: " + json_fault(error));
}

void StrictJsonHandler::refuse(const std::string& fault) const {
  throw InputError(origin_ + ": " + where() + ": " + fault);
}

void parse_strict_json(const char* text, size_t size, const std::string& origin,
                       StrictJsonHandler& handler) {
  if (size == 0 || text[0] != '{') {
    throw InputError(origin + ": not valid JSON: it must begin with '{'");
  }
  if (std::memchr(text, '\0', size) != nullptr) {
    throw InputError(origin + ": not valid JSON: it holds a NUL byte");
  }
  nlohmann::json::sax_parse(text, text + size, &handler);
}

}  // namespace dotresize
