#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "base/errors.h"
#include "base/text/printable.h"
#include "job/checkpoint/checkpoint_table.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::string_view, 2> kScales = {"_scale_inv", "_scale"};
constexpr std::array<std::string_view, 3> kScaleDtypes = {"F32", "F16", "BF16"};

/// Ends of names of what only a computation in 8 bits needs.
constexpr std::array<std::string_view, 8> kRuntimeEnds = {
    ".activation_scale", ".input_scale", ".output_scale",     ".q_scale",
    ".k_scale",          ".v_scale",     ".input_zero_point", ".output_zero_point"};

bool is_for_runtime(std::string_view name) {
  return std::ranges::any_of(kRuntimeEnds,
                             [&](std::string_view end) { return name.ends_with(end); });
}

[[noreturn]] void refuse_weight(const fs::path& dir, const TensorPlace& place,
                                const std::string& what) {
  throw InputError((dir / place.file).string() + ": tensor " + in_quotes(place.stored_name) + ", " +
                   place.dtype + ", " + what);
}

int64_t blocks(int64_t size, int64_t block) { return (size + block - 1) / block; }

/// Returns the form of a weight with these scales.
QuantisedPlace quantised_place(const fs::path& dir, const Quantisation& quantisation,
                               const TensorPlace& weight, const TensorPlace& scales) {
  if (weight.shape.size() != 2) {
    refuse_weight(dir, weight,
                  "has the shape " + shape_text(weight.shape) + "; only matrices are read");
  }
  if (std::ranges::count(kScaleDtypes, scales.dtype) == 0) {
    refuse_weight(dir, weight,
                  "has scales in " + scales.dtype + ", expected one of F32, F16, BF16");
  }
  const int64_t rows = weight.shape[0];
  const int64_t columns = weight.shape[1];
  const std::vector<int64_t>& shape = scales.shape;
  QuantisedPlace form{weight.dtype, scales, rows, columns};
  std::vector<int64_t> expected = {1};
  if (quantisation.block_rows > 0) {
    form.block_rows = quantisation.block_rows;
    form.block_columns = quantisation.block_columns;
    expected = {blocks(rows, form.block_rows), blocks(columns, form.block_columns)};
    if (shape == expected) return form;
  } else {
    if (shape.empty() || shape == expected || shape == std::vector<int64_t>{1, 1}) return form;
    expected = {rows, 1};
    form.block_rows = 1;
    if (shape == expected || shape == std::vector<int64_t>{rows}) return form;
  }
  refuse_weight(dir, weight,
                "has scales of the shape " + shape_text(shape) + ", expected " +
                    shape_text(expected) + (quantisation.block_rows > 0 ? "" : " or one scale") +
                    "; in config.json quantization_config says which numbers share a scale");
}

/// Returns the place of a weight [experts, in, out] that is stored as blocks [experts, out, in /
/// 32, 16], each of 32 numbers, with an exponent for each block.
TensorPlace place_of_blocks(const fs::path& dir, const TensorPlace& blocks,
                            const TensorPlace& exponents) {
  constexpr int64_t kBytes = 16;
  const std::vector<int64_t>& shape = blocks.shape;
  if (shape.size() != 4 || shape[3] != kBytes || std::ranges::count(shape, 0) > 0) {
    refuse_weight(dir, blocks,
                  "has the shape " + shape_text(shape) +
                      "; expected are [experts, rows, blocks, 16], all above 0");
  }
  const std::vector<int64_t> expected(shape.begin(), shape.end() - 1);
  if (exponents.dtype != "U8" || exponents.shape != expected) {
    refuse_weight(dir, blocks,
                  "has scales in " + exponents.dtype + " of the shape " +
                      shape_text(exponents.shape) + ", expected U8 of " + shape_text(expected));
  }
  TensorPlace weight = blocks;
  weight.dtype = "BF16";
  weight.shape = {shape[0], shape[2] * 2 * kBytes, shape[1]};
  weight.transposed = true;
  weight.quantised = std::make_shared<const QuantisedPlace>(QuantisedPlace{
      blocks.dtype, exponents, /*block_rows=*/1, /*block_columns=*/2 * kBytes, /*packed=*/true});
  return weight;
}

/// Puts a weight in place of each tensor of blocks and its exponents.
void take_blocks(const fs::path& dir, std::map<std::string, TensorPlace>& tensors) {
  constexpr std::string_view kBlocks = "_blocks";
  std::map<std::string, TensorPlace> weights;
  for (const auto& [name, blocks] : tensors) {
    if (!name.ends_with(kBlocks) || blocks.dtype != "U8") continue;
    const std::string weight = name.substr(0, name.size() - kBlocks.size());
    const auto exponents = tensors.find(weight + "_scales");
    if (exponents == tensors.end()) {
      refuse_weight(dir, blocks, "has no scales: " + in_quotes(weight + "_scales") + " is missing");
    }
    if (tensors.contains(weight)) {
      refuse_weight(
          dir, blocks,
          "is stored beside " + in_quotes(weight) + "; remove the one that is not the model");
    }
    weights.emplace(weight, place_of_blocks(dir, blocks, exponents->second));
  }
  for (auto& [name, place] : weights) {
    tensors.erase(name + std::string(kBlocks));
    tensors.erase(name + "_scales");
    tensors.emplace(name, std::move(place));
  }
}

}  // namespace

void take_scales(const fs::path& dir, const Quantisation& quantisation, CheckpointTable& table) {
  for (const auto& entry : table.others) {
    if (entry.second.dtype != quantisation.weight_dtype) continue;
    refuse_weight(
        dir, entry.second,
        "is quantised and not of the text part: an output would copy it, and is not quantised");
  }
  std::map<std::string, TensorPlace>& tensors = table.tensors;
  if (quantisation.packed) return take_blocks(dir, tensors);
  std::set<std::string> taken;
  for (auto& [name, place] : tensors) {
    if (place.dtype != quantisation.weight_dtype || is_for_runtime(name)) continue;
    if (tensors.contains(name + "_zero_point")) {
      refuse_weight(dir, place, "has zero points, which are not read; only symmetric weights are");
    }
    const TensorPlace* scales = nullptr;
    for (const std::string_view ending : kScales) {
      const auto found = tensors.find(name + std::string(ending));
      if (found == tensors.end()) continue;
      if (scales != nullptr)
        refuse_weight(dir, place,
                      "has both " + in_quotes(kScales[0]) + " and " + in_quotes(kScales[1]));
      scales = &found->second;
      taken.insert(found->first);
    }
    if (scales == nullptr) {
      refuse_weight(dir, place,
                    "has no scales: neither " + in_quotes(name + std::string(kScales[0])) +
                        " nor " + in_quotes(name + std::string(kScales[1])) + " is there");
    }
    place.quantised =
        std::make_shared<const QuantisedPlace>(quantised_place(dir, quantisation, place, *scales));
  }
  for (auto& entry : tensors) {
    if (entry.second.quantised) entry.second.dtype = "BF16";
  }
  std::erase_if(tensors, [&](const auto& entry) {
    return taken.contains(entry.first) || is_for_runtime(entry.first);
  });
}

}  // namespace dotresize
