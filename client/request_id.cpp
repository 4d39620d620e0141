#include "client/request_id.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace dotresize {

std::string new_request_id() {
  std::array<uint8_t, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != std::ssize(bytes)) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  bytes[6] = (bytes[6] & 0x0f) | 0x40;  // RFC 9562, section 5.4: version 4
  bytes[8] = (bytes[8] & 0x3f) | 0x80;  // and its variant
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) id += '-';
    id += kDigits[bytes[i] >> 4];
    id += kDigits[bytes[i] & 0x0f];
  }
  return id;
}

}  // namespace dotresize
