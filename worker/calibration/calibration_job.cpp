#include "worker/calibration/calibration_job.h"

namespace dotresize {

JunctionMap CalibrationJob::load_map(int64_t junction) const {
  const JunctionMap kept = journal.map(map_of(junction)).to(fold_dtype);
  const at::Tensor M = to_device(kept.M, device);
  return kept.oblique ? JunctionMap(M, to_device(kept.M_inv, device)) : JunctionMap(M);
}

}  // namespace dotresize
