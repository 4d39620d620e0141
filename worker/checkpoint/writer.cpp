#include "worker/checkpoint/writer.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "base/durable_file.h"
#include "base/errors.h"
#include "base/printable.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/checkpoint/elements.h"

namespace dotresize {
namespace {

std::string shard_file_name(size_t number, size_t count) {
  char name[64];
  std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", number, count);
  return name;
}

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
  if (!converted.is_floating_point() || all_finite(converted)) return;
  if (!all_finite(source)) {
    throw std::runtime_error("tensor " + in_quotes(name) + " holds NaN or infinity");
  }
  const at::Tensor lost = source.masked_select(converted.isfinite().logical_not());
  throw InputError(c10::str("tensor ", in_quotes(name), " holds ", lost.flatten()[0].item<double>(),
                            ", which does not fit ", converted.scalar_type(),
                            "; choose an output dtype of a larger range (bfloat16 or float32)"));
}

void check_fits(const TensorSpec& spec, const at::Tensor& tensor) {
  if (tensor.sizes() != at::IntArrayRef(spec.shape)) {
    throw std::logic_error(c10::str("tensor ", spec.name, " has shape ", tensor.sizes(),
                                    ", the layout says ", at::IntArrayRef(spec.shape)));
  }
  const bool both_floating = tensor.is_floating_point() && at::isFloatingType(spec.dtype);
  if (tensor.scalar_type() != spec.dtype && !both_floating) {
    throw std::logic_error("tensor " + spec.name + " has dtype " +
                           c10::toString(tensor.scalar_type()) + ", the layout says " +
                           c10::toString(spec.dtype));
  }
}

}  // namespace

int64_t TensorSpec::elements() const { return c10::multiply_integers(shape); }

ShardLayout make_shard_layout(const std::vector<std::vector<TensorSpec>>& tensors_by_rank,
                              int64_t max_shard_bytes) {
  ShardLayout layout;
  std::set<std::string> names;
  for (size_t rank = 0; rank < tensors_by_rank.size(); ++rank) {
    int64_t shard_bytes = 0;
    bool needs_shard = true;  // ranks do not share files
    for (const TensorSpec& spec : tensors_by_rank[rank]) {
      if (!names.insert(spec.name).second) {
        throw std::logic_error("tensor " + spec.name + " is in the layout twice");
      }
      const int64_t bytes = spec.bytes();
      if (needs_shard || shard_bytes + bytes > max_shard_bytes) {
        layout.shards.push_back({"", static_cast<int>(rank), {}});
        shard_bytes = 0;
        needs_shard = false;
      }
      layout.shards.back().tensors.push_back(spec);
      shard_bytes += bytes;
      layout.total_bytes += bytes;
      layout.total_parameters += spec.elements();
    }
  }
  for (size_t i = 0; i < layout.shards.size(); ++i) {
    layout.shards[i].file = shard_file_name(i + 1, layout.shards.size());
  }
  return layout;
}

std::string index_json(const ShardLayout& layout) {
  nlohmann::json weight_map = nlohmann::json::object();
  for (const auto& shard : layout.shards) {
    for (const TensorSpec& spec : shard.tensors) weight_map[spec.name] = shard.file;
  }
  const nlohmann::json index = {
      {"metadata",
       {{"total_parameters", layout.total_parameters}, {"total_size", layout.total_bytes}}},
      {"weight_map", std::move(weight_map)},
  };
  return index.dump(2) + "\n";
}

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
    if (found == shard.places.end()) continue;
    if (found->second.written) throw std::logic_error("tensor " + name + " was written before");
    check_fits(found->second.spec, tensor);
    shard.write(found->second, tensor);
    return;
  }
  throw std::logic_error("tensor " + name + " is not among this rank's");
}

void ShardWriter::finish() {
  for (const OpenShard& shard : shards_) {
    for (const auto& [name, place] : shard.places) {
      if (!place.written) throw std::logic_error("tensor " + name + " was never written");
    }
  }
  for (OpenShard& shard : shards_) shard.file.close();
  shards_.clear();
}

}  // namespace dotresize
