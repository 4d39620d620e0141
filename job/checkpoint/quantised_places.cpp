#include "job/checkpoint/quantised_places.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "base/errors.h"
#include "base/text/printable.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::string_view, 2> kScales = {"_scale_inv", "_scale"};
constexpr std::array<std::string_view, 3> kScaleDtypes = {"F32", "F16", "BF16"};

/// Ends of names of what only a computation in 8 bits needs.
constexpr std::array<std::string_view, 6> kRuntimeScales = {
    ".activation_scale", ".input_scale", ".output_scale", ".q_scale", ".k_scale", ".v_scale"};

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

}  // namespace

void take_scales(const fs::path& dir, const Quantisation& quantisation, CheckpointTable& table) {
  for (const auto& entry : table.others) {
    if (entry.second.dtype != quantisation.weight_dtype) continue;
    refuse_weight(
        dir, entry.second,
        "is quantised and not of the text part: an output would copy it, and is not quantised");
  }
  std::map<std::string, TensorPlace>& tensors = table.tensors;
  std::set<std::string> taken;
  for (auto& [name, place] : tensors) {
    if (place.dtype != quantisation.weight_dtype) continue;
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
    return taken.contains(entry.first) ||
           std::ranges::any_of(kRuntimeScales, [&](std::string_view ending) {
             return entry.first.ends_with(ending);
           });
  });
}

}  // namespace dotresize
