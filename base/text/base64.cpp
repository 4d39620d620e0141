#include "base/text/base64.h"

#include <openssl/evp.h>

namespace dotresize {
namespace {

size_t encoded_size(size_t bytes) { return (bytes + 2) / 3 * 4; }

unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string text(encoded_size(bytes.size()) + 1, '\0');  // room for the NUL
  const int length =
      EVP_EncodeBlock(bytes_of(text), bytes_of(bytes), static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

std::optional<std::string> from_base64(std::string_view text, size_t size) {
  if (text.size() != encoded_size(size)) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  if (EVP_DecodeBlock(bytes_of(bytes), bytes_of(text), static_cast<int>(text.size())) < 0) {
    return std::nullopt;
  }
  bytes.resize(size);
  // The decoder accepts several texts for the same bytes. Only the canonical one passes.
  if (base64(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace dotresize
