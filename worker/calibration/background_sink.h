#pragma once

#include <functional>
#include <future>

#include "worker/calibration/calibration.h"
#include "worker/transformer/stream_guard.h"

namespace dotresize {

/// Passes weights on to another sink in a background thread, so that a schedule folds the next ones
/// meanwhile, unless it `waits`. There is one piece in flight: the next `put` waits for it, which
/// counts as the phase "write", and throws what its sink threw.
class BackgroundSink final : public FoldedModelSink {
 public:
  /// References outlive the object. Weights are on `device`. `sublayer_put` is called for each
  /// sublayer, on the schedule's thread.
  BackgroundSink(FoldedModelSink& sink, at::Device device, bool waits, PhaseClock& clock,
                 std::function<void()> sublayer_put = nullptr);
  /// Waits, and throws nothing.
  ~BackgroundSink() override = default;

  void begin(const JunctionWidths& widths) override;
  const ModelConfig& output() const override { return sink_.output(); }
  void put_embedding_rows(int64_t first, const at::Tensor& rows) override;
  void put_head_rows(int64_t first, const at::Tensor& rows) override;
  void put_end(TensorRole role, const at::Tensor& tensor) override;
  void put_sublayer(const SublayerWeights& weights) override;
  /// After the last `put`: waits for it, and throws what its sink threw.
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
