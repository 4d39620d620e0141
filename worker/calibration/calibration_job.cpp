#include "worker/calibration/calibration_job.h"

#include "worker/transformer/load.h"

namespace dotresize {

JunctionMap CalibrationJob::load_map(int64_t junction) const {
  const JunctionMap kept = journal.map(map_of(junction)).to(fold_dtype);
  const at::Tensor M = to_device(kept.M, device);
  return kept.oblique ? JunctionMap(M, to_device(kept.M_inv, device)) : JunctionMap(M);
}

at::Tensor CalibrationJob::read_rows(const StoredTensor& matrix, int64_t first, int64_t count,
                                     PhaseClock& clock) const {
  const PhaseClock::Scope scope(clock, "read");
  return to_device(load_rows(reader, matrix, first, count, fold_dtype), device);
}

at::Tensor CalibrationJob::read_final_norm(PhaseClock& clock) const {
  const PhaseClock::Scope scope(clock, "read");
  return to_device(load_before_head(reader, config, fold_dtype).norm, device);
}

}  // namespace dotresize
