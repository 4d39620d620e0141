#pragma once

#include <cstdint>
#include <future>

#include "worker/calibration/calibration.h"

namespace dotresize {

/// Dense sublayers for folding, one after the other. The next one is read while this one is folded.
class SublayerLoader {
 public:
  /// References outlive the object.
  SublayerLoader(const CalibrationJob& job, PhaseClock& clock) : job_(job), clock_(clock) {}

  /// The sublayer on the job's device, in its fold dtype. Waits for it if it is read ahead, else
  /// reads it; both count as the phase "read". Throws as load_sublayer does.
  SublayerWeights take(int64_t sublayer);
  /// Starts to read the sublayer of the next take(). For a GPU a thread reads and uploads it; on
  /// the CPU, whose cores are busy, the system starts to read the file.
  void read_ahead(int64_t sublayer);

 private:
  SublayerWeights load(int64_t sublayer) const;

  const CalibrationJob& job_;
  PhaseClock& clock_;
  std::future<SublayerWeights> next_;
};

}  // namespace dotresize
