#include "worker/calibration/storage/background_sink.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

namespace dotresize {
namespace {

/// Records its input. Each sublayer waits until its gate is opened.
class GatedSink final : public FoldedModelSink {
 public:
  void begin(const JunctionWidths& widths) override { width = widths.all.at(0); }
  void put_end(TensorRole role, const at::Tensor&, int64_t first) override {
    written.push_back(-1000 * static_cast<int64_t>(role) - first);
  }
  void put_sublayer(const SublayerWeights& weights) override {
    gates.at(static_cast<size_t>(weights.sublayer)).get_future().wait();
    if (weights.sublayer == broken) throw std::runtime_error("the disk is full");
    written.push_back(weights.sublayer);
  }
  const ModelConfig& output() const override { return model; }

  void open(size_t sublayer) { gates.at(sublayer).set_value(); }

  ModelConfig model;
  int64_t width = 0;
  int64_t broken = -1;
  std::vector<std::promise<void>> gates = std::vector<std::promise<void>>(3);
  std::vector<int64_t> written;
};

SublayerWeights sublayer(int64_t number) {
  SublayerWeights weights;
  weights.sublayer = number;
  return weights;
}

struct BackgroundSinkTest : testing::Test {
  GatedSink gated;
  PhaseClock clock;
  BackgroundSink sink{gated, at::kCPU, /*waits=*/false, clock};
};

TEST_F(BackgroundSinkTest, PassesEverythingOnInOrder) {
  for (size_t i = 0; i < 3; ++i) gated.open(i);
  sink.begin({.all = {7}});
  EXPECT_EQ(gated.width, 7);
  sink.put_end(TensorRole::kEmbeddingProjection, at::zeros({1}), 0);
  sink.put_end(TensorRole::kEmbeddingProjection, at::zeros({1}), 1);
  for (int64_t i = 0; i < 3; ++i) sink.put_sublayer(sublayer(i));
  sink.put_end(TensorRole::kHead, at::zeros({1}), 5);
  sink.finish();
  const int64_t head = -1000 * static_cast<int64_t>(TensorRole::kHead) - 5;
  EXPECT_EQ(gated.written, (std::vector<int64_t>{-1000, -1001, 0, 1, 2, head}));
}

TEST_F(BackgroundSinkTest, ReturnsBeforeAPieceIsWritten) {
  sink.put_sublayer(sublayer(0));
  EXPECT_TRUE(gated.written.empty());
  gated.open(0);
  sink.finish();
  EXPECT_EQ(gated.written.size(), 1u);
}

TEST_F(BackgroundSinkTest, HoldsOnePieceAtATime) {
  sink.put_sublayer(sublayer(0));
  std::atomic<bool> taken{false};
  std::thread schedule([&] {
    sink.put_sublayer(sublayer(1));
    taken = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(taken);
  gated.open(0);
  schedule.join();
  gated.open(1);
  sink.finish();
  EXPECT_EQ(gated.written, (std::vector<int64_t>{0, 1}));
}

TEST_F(BackgroundSinkTest, ThrowsWhatItsSinkThrewAtTheNextPiece) {
  gated.broken = 0;
  gated.open(0);
  sink.put_sublayer(sublayer(0));
  EXPECT_THROW(sink.put_end(TensorRole::kHead, {}, 0), std::runtime_error);
  EXPECT_TRUE(gated.written.empty());
}

TEST_F(BackgroundSinkTest, ThrowsWhatItsSinkThrewLastOfAll) {
  gated.broken = 2;
  gated.open(2);
  sink.put_sublayer(sublayer(2));
  EXPECT_THROW(sink.finish(), std::runtime_error);
}

}  // namespace
}  // namespace dotresize
