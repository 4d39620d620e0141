#include "worker/checkpoint/strict_json.h"

#include <cstring>

#include "base/errors.h"

namespace dotresize {
namespace {

/// The parser's message without its own prefix and without the text it last read, which may be
/// long or not even UTF-8.
std::string reason_of(const std::string& what) {
  const size_t bracket = what.find("] ");
  const size_t begin = bracket == std::string::npos ? 0 : bracket + 2;
  const size_t end = what.find("; last read");
  return what.substr(begin, end == std::string::npos ? end : end - begin);
}

}  // namespace

bool StrictJsonHandler::parse_error(size_t, const std::string&,
                                    const nlohmann::json::exception& error) {
  throw InputError(origin_ + ": not valid JSON: " + reason_of(error.what()));
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
