#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/model/model_config.h"

namespace dotresize {

// Sizes of a stock model in the formats that engines serve. Quantizers divide the rows of a matrix
// into blocks. If a width is not a multiple of the block, they use a larger type.

/// Size of a model in one format.
struct FormatSize {
  std::string format;  ///< "Q4_K_M"
  int64_t bytes = 0;   ///< all weights, without a file's other data
  /// Row lengths, ascending, that are not multiples of the format's block. Their matrices are
  /// stored in a larger type.
  std::vector<int64_t> unfit_rows;
};

/// Returns the sizes in five formats. float16, Q8_0 and Q4_K_M: llama.cpp's quantizer
/// (llama_tensor_get_type), applied to the output of `dotresize export`, which pads features with
/// zeros to multiples of 32. Four-bit weights in groups of 128 and FP8: llm-compressor, applied to
/// all matrices but the ends and routers. Scales of whole rows, less than 0.1 %, are not counted.
/// `config` must be a model without maps.
std::vector<FormatSize> format_sizes(const ModelConfig& config);

}  // namespace dotresize
