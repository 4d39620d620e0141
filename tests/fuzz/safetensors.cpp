#include <algorithm>
#include <cstdint>

#include "base/errors.h"
#include "job/checkpoint/checkpoint_files.h"
#include "job/checkpoint/checkpoint_table.h"
#include "job/checkpoint/safetensors_header.h"
#include "tests/fuzz/targets.h"

namespace dotresize {
namespace {

/// Returns the tensor's size by shape and dtype. Requires that it fits int64.
int64_t checked_bytes(const TensorInfo& tensor) {
  int64_t bytes = safetensors_dtype_size(tensor.dtype);
  if (std::ranges::find(tensor.shape, 0) != tensor.shape.end()) return 0;
  for (const int64_t size : tensor.shape) {
    require(size > 0 && !__builtin_mul_overflow(bytes, size, &bytes), "sizes are within int64");
  }
  return bytes;
}

void check_header(const SafetensorsHeader& header, uint64_t file_size) {
  uint64_t data = 0;
  for (const auto& [name, tensor] : header.tensors) {
    require(tensor.begin <= tensor.end && tensor.end <= file_size, "a tensor lies in the file");
    require(tensor.end - tensor.begin == static_cast<uint64_t>(checked_bytes(tensor)),
            "a tensor has the bytes of its shape");
    data += tensor.end - tensor.begin;
  }
  require(data <= file_size, "tensors do not overlap");
}

/// A mixture whose fused experts, [2, 2, 1] and [2, 1, 1], are a few bytes.
ModelConfig tiny_mixture() {
  ModelConfig config;
  config.hidden_size = config.vocab_size = 1;
  config.tie_word_embeddings = true;
  config.form.junction_widths.assign(5, 1);
  const MixtureSpec mixture{
      .experts = 2, .experts_per_token = 1, .names = {"block_sparse_moe", "w1", "w3", "w2"}};
  config.layers.assign(2, {.attention = {}, .mlp = {.intermediate_size = 1, .mixture = mixture}});
  return config;
}

void check_place(const TensorPlace& place, uint64_t file_size) {
  require(place.begin <= place.end && place.end <= file_size, "a place lies in the file");
  const std::string& dtype = place.quantised ? place.quantised->dtype : place.dtype;
  TensorInfo part{dtype, place.shape, place.begin, place.end};
  if (place.quantised && place.quantised->packed) {
    int64_t& inputs = part.shape.at(part.shape.size() - (place.transposed ? 2 : 1));
    require(inputs % 2 == 0, "two numbers are a byte");
    inputs /= 2;
  }
  require(place.bytes() == static_cast<uint64_t>(checked_bytes(part)),
          "a place has the bytes of its shape");
  if (!place.quantised) return;
  const QuantisedPlace& form = *place.quantised;
  check_place(form.scales, file_size);
  require(form.block_rows >= 0 && form.block_columns >= 0, "a block is not negative");
}

void check_table_of(const ModelConfig& config, const SafetensorsHeader& header,
                    uint64_t file_size) {
  const CheckpointFiles files{{kSingleFile}, {}};
  const CheckpointTable table = table_of_model(files, {{kSingleFile, header}}, "model", config);
  for (const auto& entry : table.tensors) check_place(entry.second, file_size);
  for (const auto& entry : table.others) check_place(entry.second, file_size);
  require_tensors(table, "model", config);
}

/// Reads the header as that of a plain model, of one with weights of 8 bits, of a wrapper, and of
/// one whose experts are stored as one in 4 bits.
void check_table(const SafetensorsHeader& header, uint64_t file_size) {
  static const ModelConfig plain = tiny_mixture();
  ModelConfig quantised = plain;
  quantised.files.quantisation = Quantisation{.name = "fp8", .weight_dtype = "F8_E4M3"};
  ModelConfig wrapped = quantised;
  wrapped.files.quantisation->block_rows = wrapped.files.quantisation->block_columns = 2;
  wrapped.files.wrapper = Wrapper{.model_type = "llava", .architecture = ""};
  ModelConfig stacked = plain;  // its experts are w1 [2, 32, 2] and w2 [2, 1, 32]
  stacked.hidden_size = 32;
  stacked.files.quantisation = Quantisation{.name = "mxfp4", .weight_dtype = "U8", .packed = true};
  for (LayerSpec& layer : stacked.layers) {
    layer.mlp.fused = layer.mlp.interleaved = layer.mlp.bias = true;
    layer.mlp.mixture->names.stacked = true;
  }
  for (const ModelConfig* config : {&quantised, &wrapped, &stacked}) {
    try {
      check_table_of(*config, header, file_size);
    } catch (const InputError&) {  // other configs may have this header
    }
  }
  check_table_of(plain, header, file_size);
}

void check_index(const std::string& bytes) {
  for (const auto& [tensor, file] : parse_shard_index(bytes, "index")) {
    require(!file.empty() && file != "." && file != ".." && file.find('/') == std::string::npos &&
                file.find('\0') == std::string::npos,
            "a shard lies in the model's directory");
  }
}

}  // namespace

void fuzz_safetensors(const std::string& bytes) {
  try {
    if (bytes.starts_with('{'))
      return check_index(bytes);  // read as a header, '{' would begin a length beyond any file's
    // The bytes may be only the beginning of a larger file.
    for (const uint64_t more : {uint64_t{0}, uint64_t{1} << 40}) {
      const uint64_t size = bytes.size() + more;
      const SafetensorsHeader header =
          parse_safetensors_header(bytes.data(), bytes.size(), size, "file");
      check_header(header, size);
      check_table(header, size);
    }
  } catch (const InputError&) {
    return;
  }
}

}  // namespace dotresize
