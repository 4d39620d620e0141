#pragma once

#include <cstdint>
#include <future>

#include "job/model/model_config.h"
#include "worker/checkpoint/reader.h"
#include "worker/comm/communicator.h"
#include "worker/transformer/stage/stream_guard.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Reads sublayers of a checkpoint one after the other. The next one is read while this one is
/// used.
class SublayerLoader {
 public:
  /// Starts to read `first`. Every `step`-th sublayer from there, below `end`, can be taken.
  /// References outlive the object. Throws for tensors that are missing or have wrong shapes.
  SublayerLoader(const CheckpointReader& reader, const ModelConfig& config, at::ScalarType dtype,
                 at::Device device, int64_t first, int64_t end, int64_t step = 1)
      : reader_(reader),
        config_(config),
        dtype_(dtype),
        device_(device),
        sublayer_(first),
        end_(end),
        step_(step),
        stream_(device) {
    read_ahead();
  }

  /// Returns the next sublayer in the dtype, on the device, and starts to read the one behind it.
  /// Throws as load_sublayer does.
  SublayerWeights next();

 private:
  /// Starts to read sublayer_, unless it is behind the last one. On a GPU a thread reads and
  /// uploads it. On the CPU, whose cores are busy, the system reads the file.
  void read_ahead();

  const CheckpointReader& reader_;
  const ModelConfig& config_;
  at::ScalarType dtype_;
  at::Device device_;
  int64_t sublayer_;  ///< the next one
  int64_t end_;
  int64_t step_;
  KeptStream stream_;
  std::future<SublayerWeights> read_;  ///< valid if a thread reads sublayer_
};

/// Reads every sublayer of a checkpoint in order, for all ranks. Ranks take turns to read one in
/// advance and broadcast it, so each byte of the checkpoint is read once.
class SublayerStream {
 public:
  /// References outlive the object.
  SublayerStream(Communicator& comm, const CheckpointReader& reader, const ModelConfig& config,
                 at::ScalarType dtype, at::Device device);
  /// Returns the next sublayer, starting at sublayer 0. Collective.
  SublayerWeights next();

 private:
  Communicator& comm_;
  const ModelConfig& config_;
  at::ScalarType dtype_;
  at::Device device_;
  SublayerLoader loader_;
  int64_t next_ = 0;
};

}  // namespace dotresize
