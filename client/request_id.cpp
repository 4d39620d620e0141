#include "client/request_id.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "base/printable.h"

namespace dotresize {

std::string new_request_id() {
  std::array<uint8_t, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != std::ssize(bytes)) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  bytes[6] = (bytes[6] & 0x0f) | 0x40;  // RFC 9562, section 5.4: version 4
  bytes[8] = (bytes[8] & 0x3f) | 0x80;  // and its variant
  std::string id = hex_digits({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  for (const size_t hyphen : {8, 13, 18, 23}) id.insert(hyphen, 1, '-');
  return id;
}

}  // namespace dotresize
