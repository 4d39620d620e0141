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
  /// `end_sublayer`: end of the sublayers that will be taken. References outlive the object.
  SublayerLoader(const CheckpointReader& reader, const ModelConfig& config, at::ScalarType dtype,
                 at::Device device, int64_t end_sublayer)
      : reader_(reader),
        config_(config),
        dtype_(dtype),
        device_(device),
        end_(end_sublayer),
        stream_(device) {}

  /// Returns the sublayer in the dtype, on the device. Waits if it is being read ahead, else reads
  /// it. Throws as load_sublayer does.
  SublayerWeights take(int64_t sublayer);
  /// Starts to read the sublayer of the next take(), unless it is behind the last one. On a GPU a
  /// thread reads and uploads it. On the CPU, whose cores are busy, the system reads the file.
  /// Throws for tensors that are missing or have wrong shapes.
  void read_ahead(int64_t sublayer);

 private:
  const CheckpointReader& reader_;
  const ModelConfig& config_;
  at::ScalarType dtype_;
  at::Device device_;
  int64_t end_;
  KeptStream stream_;
  std::future<SublayerWeights> next_;
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
