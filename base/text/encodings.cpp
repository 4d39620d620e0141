#include "base/text/encodings.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <iterator>

namespace dotresize {

std::string hex_digits(std::string_view bytes) {
  std::string digits;
  for (const char c : bytes) {
    fmt::format_to(std::back_inserter(digits), "{:02x}", static_cast<unsigned char>(c));
  }
  return digits;
}

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // room for the NUL
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

std::optional<std::string> from_base64(std::string_view text, size_t size) {
  if (text.size() != (size + 2) / 3 * 4) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  if (EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()),
                      static_cast<int>(text.size())) < 0) {
    return std::nullopt;
  }
  bytes.resize(size);
  // The decoder accepts several texts for the same bytes. Only the canonical one passes.
  if (base64(bytes) != text) return std::nullopt;
  return bytes;
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

bool is_traceparent(std::string_view text) {
  // "00-" TRACE "-" SPAN "-" FLAGS, of 32, 16 and 2 lower-case hexadecimal digits
  if (text.size() != 55 || !text.starts_with("00-") || text[35] != '-' || text[52] != '-') {
    return false;
  }
  const std::string_view trace = text.substr(3, 32);
  const std::string_view span = text.substr(36, 16);
  for (const std::string_view digits : {trace, span, text.substr(53)}) {
    if (digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) return false;
  }
  // Ids of zeros are invalid.
  return trace.find_first_not_of('0') != std::string_view::npos &&
         span.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace dotresize
