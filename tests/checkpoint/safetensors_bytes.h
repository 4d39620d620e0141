#pragma once

#include <cstdint>
#include <string>

namespace dotresize {

/// Eight bytes, little endian.
std::string length_bytes(uint64_t length);

/// A safetensors file put together by hand: length, JSON as it is, `data_bytes` zero bytes.
std::string safetensors_bytes(const std::string& json, uint64_t data_bytes);

}  // namespace dotresize
