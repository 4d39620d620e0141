#pragma once

#include <string>
#include <vector>

#include "job/report/report.h"

namespace dotresize {

/// Rows of result_table. The heading comes first: what, dense, compressed, change.
std::vector<std::vector<std::string>> result_rows(const ModelReport& dense,
                                                  const ModelReport& compressed);

/// Main result table of a compression: sizes of both models and, if measured, their perplexities
/// and the divergence of the compressed model's predictions. Ends with a newline.
std::string result_table(const ModelReport& dense, const ModelReport& compressed);

/// "216 of 256"; "168 to 216 of 256" if the widths differ.
std::string width_text(const JunctionWidths& widths, int64_t hidden_size);

}  // namespace dotresize
