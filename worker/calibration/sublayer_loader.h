#pragma once

#include <cstdint>
#include <future>

#include "worker/calibration/calibration.h"

namespace dotresize {

/// Dense sublayers for folding, one after the other, the next one on its way while this one is
/// folded.
class SublayerLoader {
 public:
  /// References outlive the object.
  SublayerLoader(const CalibrationJob& job, PhaseClock& clock) : job_(job), clock_(clock) {}

  /// The sublayer on the job's device, in its fold dtype. Waits where it was asked for before, and
  /// reads it where not; either counts as the phase "read". Throws as load_sublayer does.
  SublayerWeights take(int64_t sublayer);
  /// Gets the sublayer on its way, which the next take() is for. On a GPU a thread reads and
  /// uploads it; on the CPU, whose cores are busy, the system starts to read the file.
  void read_ahead(int64_t sublayer);

 private:
  SublayerWeights load(int64_t sublayer) const;

  const CalibrationJob& job_;
  PhaseClock& clock_;
  std::future<SublayerWeights> next_;
};

}  // namespace dotresize
