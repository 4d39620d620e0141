#include "tests/checkpoint/safetensors_bytes.h"

namespace dotresize {

std::string length_bytes(uint64_t length) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) {
    bytes += static_cast<char>((length >> shift) & 0xFF);
  }
  return bytes;
}

std::string safetensors_bytes(const std::string& json, uint64_t data_bytes) {
  return length_bytes(json.size()) + json + std::string(data_bytes, '\0');
}

}  // namespace dotresize
