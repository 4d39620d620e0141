#include "worker/checkpoint/writer.h"

#include <ATen/ATen.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "base/durable_file.h"
#include "base/errors.h"
#include "base/printable.h"
#include "worker/checkpoint/blocks.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/checkpoint/finite.h"

namespace dotresize {
namespace {

constexpr uint64_t kHeaderAlignment = 8;

/// The length field and the JSON, padded with spaces to a multiple of 8 bytes.
std::string header_bytes(const std::vector<TensorSpec>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t offset = 0;
  for (const TensorSpec& spec : tensors) {
    const uint64_t end = offset + static_cast<uint64_t>(spec.bytes());
    header[spec.name] = {{"dtype", safetensors_dtype(spec.dtype)},
                         {"shape", spec.shape},
                         {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  std::string length;
  for (uint64_t i = 0; i < sizeof(uint64_t); ++i) {
    length += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  }
  return length + text;
}

/// Neither NaN nor infinity reaches a file: not from the computation, and not from a value that the
/// dtype of the file cannot hold.
void check_finite(const at::Tensor& source, const at::Tensor& converted, const std::string& name) {
  if (!converted.is_floating_point() || all_finite(converted)) {
    return;
  }
  if (!all_finite(source)) {
    throw std::runtime_error("tensor " + in_quotes(name) + " holds NaN or infinity");
  }
  std::ostringstream fault;
  fault << "tensor " << in_quotes(name) << " holds "
        << source.masked_select(converted.isfinite().logical_not()).flatten()[0].item<double>()
        << ", which does not fit " << c10::toString(converted.scalar_type())
        << "; choose an output dtype of a larger range (bfloat16 or float32)";
  throw InputError(fault.str());
}

void check_fits(const TensorSpec& spec, const at::Tensor& tensor) {
  if (tensor.sizes() != at::IntArrayRef(spec.shape)) {
    std::ostringstream fault;
    fault << "tensor " << spec.name << " has shape " << tensor.sizes() << ", the layout says "
          << at::IntArrayRef(spec.shape);
    throw std::logic_error(fault.str());
  }
  const bool both_floating = tensor.is_floating_point() && at::isFloatingType(spec.dtype);
  if (tensor.scalar_type() != spec.dtype && !both_floating) {
    throw std::logic_error("tensor " + spec.name + " has dtype " +
                           c10::toString(tensor.scalar_type()) + ", the layout says " +
                           c10::toString(spec.dtype));
  }
}

}  // namespace

struct ShardWriter::OpenShard {
  struct Place {
    TensorSpec spec;
    uint64_t offset;  ///< within the file
    bool written = false;
  };

  OpenShard(OutputFile output, const std::vector<TensorSpec>& tensors) : file(std::move(output)) {
    const std::string header = header_bytes(tensors);
    uint64_t offset = header.size();
    for (const TensorSpec& spec : tensors) {
      places.emplace(spec.name, Place{spec, offset});
      offset += static_cast<uint64_t>(spec.bytes());
    }
    file.reserve(offset);
    file.write(header.data(), header.size(), 0);
  }

  void write(Place& place, const at::Tensor& tensor) {
    for_each_block(tensor, [&](const at::Tensor& block, int64_t first) {
      const at::Tensor source = block.cpu();
      const at::Tensor converted = source.to(place.spec.dtype).contiguous();
      check_finite(source, converted, place.spec.name);
      file.write(static_cast<const char*>(converted.const_data_ptr()), converted.nbytes(),
                 place.offset + static_cast<uint64_t>(first) * converted.element_size());
    });
    place.written = true;
  }

  OutputFile file;
  std::map<std::string, Place> places;
};

ShardWriter::ShardWriter(const std::filesystem::path& dir, const ShardLayout& layout, int rank) {
  for (const auto& shard : layout.shards) {
    if (shard.rank == rank) {
      shards_.emplace_back(OutputFile(dir / shard.file, OutputFile::Mode::kTruncate),
                           shard.tensors);
    }
  }
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::write(const std::string& name, const at::Tensor& tensor) {
  for (OpenShard& shard : shards_) {
    const auto found = shard.places.find(name);
    if (found == shard.places.end()) {
      continue;
    }
    if (found->second.written) {
      throw std::logic_error("tensor " + name + " was written before");
    }
    check_fits(found->second.spec, tensor);
    shard.write(found->second, tensor);
    return;
  }
  throw std::logic_error("tensor " + name + " is not among this rank's");
}

void ShardWriter::finish() {
  for (const OpenShard& shard : shards_) {
    for (const auto& [name, place] : shard.places) {
      if (!place.written) {
        throw std::logic_error("tensor " + name + " was never written");
      }
    }
  }
  for (OpenShard& shard : shards_) {
    shard.file.close();
  }
  shards_.clear();
}

}  // namespace dotresize
