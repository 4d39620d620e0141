#pragma once

#include <cstdint>
#include <string>

namespace dotresize {

/// Returns eight bytes, little endian.
std::string length_bytes(uint64_t length);

/// Builds a safetensors file by hand: length, `json` unchanged, `data_bytes` zero bytes.
std::string safetensors_bytes(const std::string& json, uint64_t data_bytes);

}  // namespace dotresize
