#include "worker/calibration/fold_stage.h"
#include "worker/calibration/junction_groups.h"
#include "worker/calibration/own_maps.h"
#include "worker/calibration/schedules/schedules.h"
#include "worker/calibration/shared_map.h"

namespace dotresize {

void calibrate_pipeline(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                        const CalibrationObserver& observer, PhaseClock& clock) {
  PipelinePasses passes(comm, job, observer, clock);
  sink.begin(job.widths);
  if (job.shared_map) {
    solve_shared_map(comm, job, passes, observer, clock);
  } else {
    solve_own_maps(comm, job, passes, observer);
  }
  passes.unload();  // needed if the map is shared
  comm.barrier();   // every map is in the journal
  fold_stage(comm, job, sink, clock);
}

}  // namespace dotresize
