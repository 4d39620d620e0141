#include "job/checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/process/work_budget.h"
#include "base/text/printable.h"
#include "job/checkpoint/strict_json.h"

// The format: https://huggingface.co/docs/safetensors. 8 bytes of header length (little endian), a
// JSON object {name: {dtype, shape, data_offsets: [begin, end]}, "__metadata__": {...}}, the data.

namespace dotresize {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  ///< limit of the format
constexpr size_t kMaxDimensions = 64;
constexpr uint64_t kMemoryPerHeaderByte = 4;  ///< text, and the table made of it

constexpr std::array<std::pair<std::string_view, int64_t>, 18> kDtypeSizes = {{
    {"F64", 8},
    {"F32", 4},
    {"F16", 2},
    {"BF16", 2},
    {"I64", 8},
    {"I32", 4},
    {"I16", 2},
    {"I8", 1},
    {"U64", 8},
    {"U32", 4},
    {"U16", 2},
    {"U8", 1},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"F8_E8M0", 1},
    {"BOOL", 1},
    {"C64", 8},
    {"C128", 16},
}};

std::optional<int64_t> find_dtype_size(const std::string& dtype) {
  const auto* found =
      std::ranges::find_if(kDtypeSizes, [&](const auto& entry) { return entry.first == dtype; });
  return found == kDtypeSizes.end() ? std::nullopt : std::optional(found->second);
}

class HeaderHandler final : public StrictJsonHandler {
 public:
  HeaderHandler(const std::string& origin, uint64_t data_begin, uint64_t file_size)
      : StrictJsonHandler(origin), data_begin_(data_begin), data_size_(file_size - data_begin) {}

  SafetensorsHeader header;  ///< complete once the text is parsed

  bool start_object(size_t elements) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && name_ == "__metadata__") {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      place_ = Place::kTensor;
      draft_ = Draft();
    } else {
      return StrictJsonHandler::start_object(elements);
    }
    key_.clear();
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) add_tensor();
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool key(string_t& value) override {
    if (place_ == Place::kTop) {
      name_ = value;
      key_.clear();
      const bool metadata = value == "__metadata__";
      if (metadata ? std::exchange(has_metadata_, true) : header.tensors.contains(value)) {
        refuse("the name appears twice");
      }
      return true;
    }
    key_ = value;
    if (place_ == Place::kMetadata) {
      if (header.metadata.contains(value)) refuse("the key appears twice");
      return true;
    }
    if (value != "dtype" && value != "shape" && value != "data_offsets") {
      refuse("unknown key; a tensor has dtype, shape and data_offsets");
    }
    if ((value == "dtype" && !draft_.dtype.empty()) || (value == "shape" && draft_.has_shape) ||
        (value == "data_offsets" && draft_.has_offsets)) {
      refuse("the key appears twice");
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      header.metadata.emplace(key_, std::move(value));
    } else if (place_ == Place::kTensor && key_ == "dtype") {
      if (!find_dtype_size(value)) refuse("unknown dtype " + in_quotes(value));
      draft_.dtype = std::move(value);
    } else {
      return StrictJsonHandler::string(value);
    }
    return true;
  }

  bool start_array(size_t elements) override {
    if (place_ != Place::kTensor || key_ == "dtype") {
      return StrictJsonHandler::start_array(elements);
    }
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    (place_ == Place::kShape ? draft_.has_shape : draft_.has_offsets) = true;
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      if (draft_.shape.size() == kMaxDimensions) {
        refuse("more than " + std::to_string(kMaxDimensions) + " dimensions");
      }
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        refuse("dimension " + std::to_string(value) + " is beyond 2^63 - 1");
      }
      draft_.shape.push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::kOffsets) {
      if (draft_.offset_count == draft_.offsets.size()) {
        refuse("must be [begin, end], but has more than two numbers");
      }
      draft_.offsets[draft_.offset_count++] = value;
    } else {
      return StrictJsonHandler::number_unsigned(value);
    }
    return true;
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  /// A tensor's entry while it is being read.
  struct Draft {
    std::string dtype;
    std::vector<int64_t> shape;
    std::array<uint64_t, 2> offsets = {};
    size_t offset_count = 0;
    bool has_shape = false;
    bool has_offsets = false;
  };

  std::string where() const override {
    if (place_ == Place::kStart || place_ == Place::kEnd) return "header";
    const std::string entry = name_ == "__metadata__" ? name_ : "tensor " + in_quotes(name_);
    return key_.empty() ? entry : entry + ", key " + in_quotes(key_);
  }

  void add_tensor() {
    key_.clear();
    if (draft_.dtype.empty() || !draft_.has_shape || !draft_.has_offsets) {
      refuse("incomplete; a tensor has dtype, shape and data_offsets");
    }
    const auto [begin, end] = draft_.offsets;
    const std::string range = std::to_string(begin) + " to " + std::to_string(end);
    if (draft_.offset_count != draft_.offsets.size()) refuse("data_offsets must be [begin, end]");
    if (begin > end) refuse("data_offsets " + range + " end before they begin");
    if (end > data_size_) {
      refuse("data_offsets " + range + " lie beyond the end of the file, which has " +
             std::to_string(data_size_) + " bytes of data");
    }
    // A dimension of 0 counts as 1 first, so that strides cannot overflow either.
    int64_t bytes = safetensors_dtype_size(draft_.dtype);
    bool empty = false;
    for (const int64_t size : draft_.shape) {
      empty = empty || size == 0;
      if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) {
        refuse("the shape has more than 2^63 - 1 bytes");
      }
    }
    const auto expected = empty ? uint64_t{0} : static_cast<uint64_t>(bytes);
    if (end - begin != expected) {
      refuse("data_offsets " + range + " hold " + std::to_string(end - begin) +
             " bytes, dtype and shape need " + std::to_string(expected));
    }
    header.tensors.emplace(name_, TensorInfo{std::move(draft_.dtype), std::move(draft_.shape),
                                             data_begin_ + begin, data_begin_ + end});
  }

  uint64_t data_begin_;
  uint64_t data_size_;
  Place place_ = Place::kStart;
  bool has_metadata_ = false;
  std::string name_;  ///< last key of the header
  std::string key_;   ///< last key within the entry
  Draft draft_;
};

/// Checks that every byte of [data_begin, file_size) belongs to exactly one tensor.
void check_coverage(const SafetensorsHeader& header, uint64_t data_begin, uint64_t file_size,
                    const std::string& origin) {
  std::vector<const std::pair<const std::string, TensorInfo>*> in_order;
  in_order.reserve(header.tensors.size());
  for (const auto& entry : header.tensors) in_order.push_back(&entry);
  std::ranges::sort(in_order, {}, [](const auto* entry) {
    return std::pair(entry->second.begin, entry->second.end);
  });
  uint64_t covered = data_begin;
  for (const auto* entry : in_order) {
    const uint64_t begin = entry->second.begin;
    if (begin < covered) {
      throw InputError(origin + ": tensor " + in_quotes(entry->first) +
                       ": its data overlap another tensor's");
    }
    if (begin > covered) {
      throw InputError(origin + ": tensor " + in_quotes(entry->first) + ": a gap of " +
                       std::to_string(begin - covered) + " bytes precedes its data");
    }
    covered = entry->second.end;
  }
  if (covered != file_size) {
    throw InputError(origin + ": the last " + std::to_string(file_size - covered) +
                     " bytes of the file belong to no tensor");
  }
}

/// Decodes and checks the header length at the start of the file.
uint64_t header_length(const char* prefix, uint64_t prefix_size, uint64_t file_size,
                       const std::string& origin) {
  if (file_size < kLengthBytes || prefix_size < kLengthBytes) {
    throw InputError(origin + ": " + std::to_string(file_size) +
                     " bytes, too short for a safetensors file");
  }
  if (std::string_view(prefix, kLengthBytes) == "version ") {
    throw InputError(origin +
                     ": is a pointer of git-lfs, not the file itself: run `git lfs pull` in its "
                     "repository");
  }
  uint64_t length = 0;
  for (uint64_t i = kLengthBytes; i-- > 0;) {
    length = (length << 8) | static_cast<unsigned char>(prefix[i]);
  }
  const std::string found = origin + ": header length " + std::to_string(length);
  if (length == 0) throw InputError(found + ": not a safetensors file");
  if (length > kMaxHeaderBytes) {
    throw InputError(found + " is above the format's limit of " + std::to_string(kMaxHeaderBytes) +
                     ": not a safetensors file");
  }
  if (length > file_size - kLengthBytes) {
    throw InputError(found + " exceeds the file of " + std::to_string(file_size) +
                     " bytes: not a safetensors file, or cut off");
  }
  return length;
}

}  // namespace

int64_t safetensors_dtype_size(const std::string& dtype) {
  const auto size = find_dtype_size(dtype);
  if (!size) throw InputError("unknown safetensors dtype " + in_quotes(dtype));
  return *size;
}

SafetensorsHeader parse_safetensors_header(const char* prefix, uint64_t prefix_size,
                                           uint64_t file_size, const std::string& origin) {
  const uint64_t length = header_length(prefix, prefix_size, file_size, origin);
  if (prefix_size - kLengthBytes < length) {
    throw InputError(origin + ": the header is cut off after " + std::to_string(prefix_size) +
                     " bytes");
  }
  const uint64_t data_begin = kLengthBytes + length;
  HeaderHandler handler(origin, data_begin, file_size);
  parse_strict_json(prefix + kLengthBytes, length, origin, handler);
  check_coverage(handler.header, data_begin, file_size, origin);
  return std::move(handler.header);
}

SafetensorsHeader read_safetensors_header(const InputFile& file) {
  std::string prefix(std::min(kLengthBytes, file.size()), '\0');
  file.read(prefix.data(), prefix.size(), 0);
  const uint64_t length = header_length(prefix.data(), prefix.size(), file.size(), file.path());
  WorkBudget::check();
  WorkBudget::take(kMemoryPerHeaderByte * length);
  prefix.resize(kLengthBytes + length);
  file.read(prefix.data() + kLengthBytes, length, kLengthBytes);
  return parse_safetensors_header(prefix.data(), prefix.size(), file.size(), file.path());
}

}  // namespace dotresize
