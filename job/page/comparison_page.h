#pragma once

#include <vector>

#include "job/page/page.h"
#include "job/report/comparison_table.h"

namespace dotresize {

/// What several compressions gave, side by side: the rows of comparison_table, and perplexity over
/// net size.
Page comparison_page(const std::vector<ComparedModel>& models);

}  // namespace dotresize
