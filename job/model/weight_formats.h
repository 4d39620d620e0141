#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/model/model_config.h"

namespace dotresize {

// Sizes of a stock model in the formats that engines serve. Quantizers divide the rows of a matrix
// into blocks, so a width that is no multiple of the block makes them take a larger type.

/// A model in one format.
struct FormatSize {
  std::string format;  ///< "Q4_K_M"
  int64_t bytes = 0;   ///< of all weights, without what a file has in addition
  /// Lengths of the rows, ascending, that are no multiple of the format's block: their matrices are
  /// stored in a larger type.
  std::vector<int64_t> unfit_rows;
};

/// float16, Q8_0 and Q4_K_M as llama.cpp's quantizer makes them (llama_tensor_get_type) of what
/// `dotresize export` writes, whose features are filled up with zeros to multiples of 32; four-bit
/// weights in groups of 128 and FP8 as llm-compressor makes them of all matrices but the ends and
/// routers. Scales of whole rows, less than 0.1 %, are not counted. `config`: of a model without
/// maps.
std::vector<FormatSize> format_sizes(const ModelConfig& config);

}  // namespace dotresize
