#include "worker/commands/progress_records.h"

#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace dotresize {

void ProgressRecords::show(const ProgressState& state) {
  if (!throttle_.passes(state.phase)) return;
  const nlohmann::json record = {{"phase", state.phase},
                                 {"junctions_done", state.junctions_done},
                                 {"junctions_total", state.junctions_total},
                                 {"tokens_per_second", state.tokens_per_second},
                                 {"eta_s", state.eta_s},
                                 {"fraction", state.fraction}};
  // Phases of `eval` contain paths, which may not be UTF-8.
  fmt::print(stderr, "\x1e{}\n",
             record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace dotresize
