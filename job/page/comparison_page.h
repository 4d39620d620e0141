#pragma once

#include <vector>

#include "job/page/page.h"
#include "job/report/comparison_table.h"

namespace dotresize {

/// Page that compares several compressions: the rows of comparison_table, and perplexity over net
/// size.
Page comparison_page(const std::vector<ComparedModel>& models);

}  // namespace dotresize
