#pragma once

#include "job/page/page.h"
#include "job/page/stored_sweep.h"

namespace dotresize {

/// Page for a sweep: its settings and its results.
Page sweep_page(const StoredSweep& sweep);

}  // namespace dotresize
