#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dotresize {

class InputFile;

/// A tensor of a safetensors file. Offsets are bytes within the file, unlike those in the header,
/// which are relative.
struct TensorInfo {
  std::string dtype;  ///< name in the file: "F64", "F32", "F16", "BF16", "I64", "I32", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
};

/// Returns the bytes of one element. Throws InputError for a dtype that is not of the format.
int64_t safetensors_dtype_size(const std::string& dtype);

/// Parses and checks the start of a file of `file_size` bytes. `prefix` holds at least the header
/// (8 bytes of length, then JSON); `origin` names the file in errors. The checks come before any
/// allocation that the file's content could inflate: header length against file and format limit
/// (100 MB), JSON without duplicate keys, dtype, shape (non-negative, product without overflow),
/// offsets (ordered, in the file, size equal to shape x dtype, no overlap, no hole). Throws
/// InputError.
SafetensorsHeader parse_safetensors_header(const char* prefix, uint64_t prefix_size,
                                           uint64_t file_size, const std::string& origin);

/// Reads and parses the header of a file. Throws InputError.
SafetensorsHeader read_safetensors_header(const InputFile& file);

}  // namespace dotresize
