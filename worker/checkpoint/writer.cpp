#include "worker/checkpoint/writer.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/text/printable.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/checkpoint/elements.h"

namespace dotresize {
namespace {

constexpr uint64_t kHeaderAlignment = 8;
constexpr uint64_t kCopiedBlock = uint64_t{4} << 20;  // bytes

/// Calls visit(first, count, bytes) for each tensor of the file: its first part, their number, and
/// the bytes of all.
template <class Visit>
void for_each_in_file(const std::vector<TensorSpec>& tensors, const Visit& visit) {
  for (auto spec = tensors.begin(); spec != tensors.end();) {
    const int64_t count = spec->slice ? spec->slice->count : 1;
    if (!spec->begins_in_file() || tensors.end() - spec < count) {
      throw std::logic_error("tensor " + spec->name + " is not beside the others of its slices");
    }
    visit(*spec, count, count * spec->bytes());
    spec += count;
  }
}

/// Returns the length field and the JSON, padded with spaces to a multiple of 8 bytes.
std::string header_bytes(const std::vector<TensorSpec>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t offset = 0;
  for_each_in_file(tensors, [&](const TensorSpec& spec, int64_t count, int64_t bytes) {
    const uint64_t end = offset + static_cast<uint64_t>(bytes);
    std::vector<int64_t> shape = spec.shape;
    if (spec.slice) {
      std::ranges::reverse(shape);
      shape.insert(shape.begin(), count);
    }
    header[spec.name_in_file()] = {
        {"dtype", spec.copied ? spec.copied->dtype : safetensors_dtype(spec.dtype)},
        {"shape", shape},
        {"data_offsets", {offset, end}}};
    offset = end;
  });
  std::string text = header.dump();
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  std::string length;
  for (uint64_t i = 0; i < sizeof(uint64_t); ++i) {
    length += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  }
  return length + text;
}

/// Throws if `converted` holds NaN or infinity: std::runtime_error if the computation produced it,
/// InputError if a value exceeds the range of the file's dtype.
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

/// Checks shape and dtype of `rows`, the rows of the tensor from `first` on.
void check_fits(const TensorSpec& spec, int64_t first, const at::Tensor& rows) {
  std::vector<int64_t> shape = rows.sizes().vec();
  const bool part = !shape.empty() && !spec.shape.empty() && shape[0] < spec.shape[0] &&
                    first + shape[0] <= spec.shape[0];
  if (part) shape[0] = spec.shape[0];
  const bool split = part && spec.slice;  // its rows do not follow one another
  if (shape != spec.shape || (!part && first != 0) || split) {
    throw std::logic_error(c10::str("tensor ", spec.name, " has shape ", rows.sizes(),
                                    ", the layout says ", at::IntArrayRef(spec.shape)));
  }
  const bool both_floating = rows.is_floating_point() && at::isFloatingType(spec.dtype);
  if (rows.scalar_type() != spec.dtype && !both_floating) {
    throw std::logic_error("tensor " + spec.name + " has dtype " +
                           c10::toString(rows.scalar_type()) + ", the layout says " +
                           c10::toString(spec.dtype));
  }
}

}  // namespace

int64_t TensorSpec::elements() const { return c10::multiply_integers(shape); }

int64_t TensorSpec::bytes() const {
  return copied ? static_cast<int64_t>(copied->bytes())
                : elements() * static_cast<int64_t>(c10::elementSize(dtype));
}

TensorSpec copied_tensor(const TensorPlace& place) {
  return {.name = place.stored_name, .dtype = at::kByte, .shape = place.shape, .copied = place};
}

ShardLayout make_shard_layout(const std::vector<TensorSpec>& tensors, int64_t max_shard_bytes) {
  ShardLayout layout;
  std::set<std::string> names;
  int64_t shard_bytes = 0;
  for (const TensorSpec& spec : tensors) {
    std::set<std::string> of_spec = {spec.name};
    if (spec.begins_in_file()) of_spec.insert(spec.name_in_file());
    for (const std::string& name : of_spec) {
      if (!names.insert(name).second) {
        throw std::logic_error("tensor " + name + " appears twice in the layout");
      }
    }
    const int64_t bytes = spec.bytes();
    const int64_t together = spec.slice ? spec.slice->count * bytes : bytes;
    if (layout.shards.empty() ||
        (spec.begins_in_file() && shard_bytes + together > max_shard_bytes)) {
      layout.shards.emplace_back();
      shard_bytes = 0;
    }
    layout.shards.back().tensors.push_back(spec);
    shard_bytes += bytes;
    layout.total_bytes += bytes;
    layout.total_parameters += spec.elements();
    if (!spec.copied) continue;
    layout.copied_bytes += bytes;
    layout.copied_parameters += spec.elements();
  }
  for (size_t i = 0; i < layout.shards.size(); ++i) {
    char name[64];
    std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", i + 1,
                  layout.shards.size());
    layout.shards[i].file = name;
  }
  return layout;
}

std::string index_json(const ShardLayout& layout) {
  nlohmann::json weight_map = nlohmann::json::object();
  for (const auto& shard : layout.shards) {
    for_each_in_file(shard.tensors, [&](const TensorSpec& spec, int64_t, int64_t) {
      weight_map[spec.name_in_file()] = shard.file;
    });
  }
  const nlohmann::json index = {
      {"metadata",
       {{"total_parameters", layout.total_parameters}, {"total_size", layout.total_bytes}}},
      {"weight_map", std::move(weight_map)},
  };
  return index.dump(2) + "\n";
}

void create_shards(const std::filesystem::path& dir, const ShardLayout& layout) {
  for (const ShardLayout::Shard& shard : layout.shards) {
    const std::string header = header_bytes(shard.tensors);
    int64_t bytes = 0;
    for (const TensorSpec& spec : shard.tensors) bytes += spec.bytes();
    OutputFile file(dir / shard.file, OutputFile::Mode::kTruncate);
    file.reserve(header.size() + static_cast<uint64_t>(bytes));
    file.write(header.data(), header.size(), 0);
    file.close();
  }
}

struct ShardWriter::OpenShard {
  struct Place {
    TensorSpec spec;
    uint64_t offset;      ///< bytes from the start of the file
    int64_t written = 0;  ///< number of elements
  };

  OutputFile file;
  std::map<std::string, Place> places;
};

ShardWriter::ShardWriter(const std::filesystem::path& dir, const ShardLayout& layout,
                         const std::set<std::string>& mine) {
  for (const auto& shard : layout.shards) {
    const bool has_mine = std::ranges::any_of(
        shard.tensors, [&](const TensorSpec& spec) { return mine.contains(spec.name); });
    if (!has_mine) continue;
    OpenShard& open =
        shards_.emplace_back(OutputFile(dir / shard.file, OutputFile::Mode::kMustExist));
    uint64_t offset = header_bytes(shard.tensors).size();
    for (const TensorSpec& spec : shard.tensors) {
      if (mine.contains(spec.name)) open.places.emplace(spec.name, OpenShard::Place{spec, offset});
      offset += static_cast<uint64_t>(spec.bytes());
    }
  }
}

struct ShardWriter::OpenTensor {
  OutputFile& file;
  OpenShard::Place& place;
};

ShardWriter::~ShardWriter() = default;

ShardWriter::OpenTensor ShardWriter::tensor_named(const std::string& name) {
  for (OpenShard& shard : shards_) {
    const auto found = shard.places.find(name);
    if (found != shard.places.end()) return {shard.file, found->second};
  }
  throw std::logic_error("tensor " + name + " is not among this rank's");
}

void ShardWriter::write(const std::string& name, const at::Tensor& rows, int64_t first) {
  auto [file, place] = tensor_named(name);
  check_fits(place.spec, first, rows);
  if (place.written + rows.numel() > place.spec.elements()) {
    throw std::logic_error("tensor " + name + " was written before");
  }
  const int64_t before = first == 0 ? 0 : first * (rows.numel() / rows.size(0));
  for_each_block(
      place.spec.slice ? rows.t() : rows, [&](const at::Tensor& block, int64_t block_first) {
        const at::Tensor source = block.cpu();
        const at::Tensor converted = source.to(place.spec.dtype).contiguous();
        check_finite(source, converted, name);
        const auto elements = static_cast<uint64_t>(before + block_first);
        file.write(static_cast<const char*>(converted.const_data_ptr()), converted.nbytes(),
                   place.offset + elements * converted.element_size());
      });
  place.written += rows.numel();
}

void ShardWriter::copy(const std::string& name, const std::filesystem::path& dir) {
  auto [file, place] = tensor_named(name);
  if (!place.spec.copied) throw std::logic_error("tensor " + name + " is not to be copied");
  const TensorPlace& from = *place.spec.copied;
  const InputFile source((dir / from.file).string());
  std::vector<char> block(std::min<uint64_t>(from.bytes(), kCopiedBlock));
  for (uint64_t done = 0; done < from.bytes(); done += block.size()) {
    const uint64_t count = std::min<uint64_t>(block.size(), from.bytes() - done);
    source.read(block.data(), count, from.begin + done);
    file.write(block.data(), count, place.offset + done);
  }
  place.written = place.spec.elements();
}

void ShardWriter::finish() {
  for (const OpenShard& shard : shards_) {
    for (const auto& [name, place] : shard.places) {
      if (place.written != place.spec.elements()) {
        throw std::logic_error("tensor " + name + " was never written");
      }
    }
  }
  for (OpenShard& shard : shards_) shard.file.close();
  shards_.clear();
}

}  // namespace dotresize
