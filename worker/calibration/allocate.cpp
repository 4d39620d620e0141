#include "worker/calibration/allocate.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "worker/calibration/junction_rises.h"
#include "worker/calibration/sublayer_cuts.h"

namespace dotresize {
namespace {

using Json = nlohmann::json;

constexpr char kChosen[] = "allocation";

Json to_json(const Allocation& chosen) {
  return {{"widths", chosen.widths.all},
          {"features", chosen.features},
          {"values", chosen.values},
          {"shortcut_ranks", chosen.shortcut_ranks},
          {"junction_rises", chosen.junction_rises},
          {"mlp_rises", chosen.mlp_rises},
          {"value_rises", chosen.value_rises},
          {"shortcut_rises", chosen.shortcut_rises}};
}

Allocation from_json(const Json& object, const ResolvedJob& job) {
  Allocation chosen;
  chosen.widths = job.widths;
  object.at("widths").get_to(chosen.widths.all);
  chosen.widths = decided(std::move(chosen.widths), job.hidden_size);
  object.at("features").get_to(chosen.features);
  object.at("values").get_to(chosen.values);
  object.at("shortcut_ranks").get_to(chosen.shortcut_ranks);
  object.at("junction_rises").get_to(chosen.junction_rises);
  object.at("mlp_rises").get_to(chosen.mlp_rises);
  object.at("value_rises").get_to(chosen.value_rises);
  object.at("shortcut_rises").get_to(chosen.shortcut_rises);
  return chosen;
}

}  // namespace

Allocation allocate(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                    const CalibrationObserver& observer, PhaseClock& clock) {
  if (!dense.journal.has(kChosen)) {
    CutCurves curves = measure_cuts(comm, dense, job, observer, clock);
    PredictedRises rises;
    rises.mlps = std::move(curves.mlps);
    rises.values = std::move(curves.values);
    measure_junctions(comm, dense, job, observer, clock, rises);
    const PhaseClock::Scope scope(clock, "solve");
    if (comm.rank() == 0) {
      dense.journal.put_value(kChosen, to_json(allocate_jointly(dense.config, job, rises)));
    }
    comm.barrier();
  }
  return from_json(dense.journal.value(kChosen), job);
}

}  // namespace dotresize
