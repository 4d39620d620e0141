#pragma once

#include <string>
#include <vector>

#include "job/report/report.h"

namespace dotresize {

/// The rows of result_table, the heading first: what, dense, compressed, change.
std::vector<std::vector<std::string>> result_rows(const ModelReport& dense,
                                                  const ModelReport& compressed);

/// The table that a compression is about: sizes of both models, and their perplexities and how far
/// the compressed one's predictions are from the dense one's, if that was measured. Ends with a
/// newline.
std::string result_table(const ModelReport& dense, const ModelReport& compressed);

/// "216 of 256", "168 to 216 of 256" if the loss has decided the widths.
std::string width_text(const JunctionWidths& widths, int64_t hidden_size);

}  // namespace dotresize
