#pragma once

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/text/checked_json.h"
#include "base/text/printable.h"

namespace dotresize {

/// Base class of event handlers for JSON from untrusted files. It builds no document, so the
/// content cannot inflate memory. Anything that a subclass does not expect is refused. Every
/// callback either returns true or throws InputError.
class StrictJsonHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit StrictJsonHandler(std::string origin) : origin_(std::move(origin)) {}

  bool null() override { return unexpected("null"); }
  bool boolean(bool value) override { return unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    return unexpected("the number " + std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return unexpected("the number " + std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return unexpected("the number " + in_quotes(text));
  }
  bool string(string_t& value) override { return unexpected("the string " + in_quotes(value)); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool start_object(size_t) override { return unexpected("an object"); }
  bool start_array(size_t) override { return unexpected("an array"); }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    throw InputError(origin_ + ": not valid JSON: " + json_fault(error));
  }

 protected:
  /// Location of the current value, for messages: "tensor 'a', key 'shape'".
  virtual std::string where() const = 0;
  /// Throws InputError: "ORIGIN: WHERE: fault".
  [[noreturn]] void refuse(const std::string& fault) const {
    throw InputError(origin_ + ": " + where() + ": " + fault);
  }
  /// True if the current value is skipped, whatever it is.
  virtual bool passes_over() const { return false; }

 private:
  /// Refuses a value of a kind that does not belong here, unless it is skipped.
  bool unexpected(const std::string& found) const {
    if (!passes_over()) refuse("unexpected " + found);
    return true;
  }

  std::string origin_;
};

/// Feeds the text to the handler. Refuses two things that nlohmann::json accepts: a byte order
/// mark, and a NUL byte, which it takes for the end of the text.
inline void parse_strict_json(const char* text, size_t size, const std::string& origin,
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
