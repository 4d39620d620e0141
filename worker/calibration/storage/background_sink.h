#pragma once

#include <functional>
#include <future>

#include "worker/calibration/calibration_job.h"
#include "worker/transformer/stage/stream_guard.h"

namespace dotresize {

/// Passes weights to another sink in a background thread while the schedule folds the next ones.
/// `waits` disables the overlap. One piece is in flight at a time. The next `put` waits for it, in
/// the phase "write", and rethrows the error of the sink.
class BackgroundSink final : public FoldedModelSink {
 public:
  /// References outlive the object. `device`: device of the weights. `sublayer_put` is called for
  /// each sublayer, on the schedule's thread.
  BackgroundSink(FoldedModelSink& sink, at::Device device, bool waits, PhaseClock& clock,
                 std::function<void()> sublayer_put = nullptr);
  /// Waits for the piece in flight. Discards its error.
  ~BackgroundSink() override = default;

  void begin(const JunctionWidths& widths) override;
  const ModelConfig& output() const override { return sink_.output(); }
  void put_end(TensorRole role, const at::Tensor& rows, int64_t first) override;
  void put_sublayer(const SublayerWeights& weights) override;
  /// Waits for the last `put`, and rethrows the error of the sink.
  void finish();

 private:
  void start(std::function<void()> put);

  FoldedModelSink& sink_;
  at::Device device_;
  KeptStream stream_;
  bool waits_;
  PhaseClock& clock_;
  std::function<void()> sublayer_put_;
  std::future<void> in_flight_;
};

}  // namespace dotresize
