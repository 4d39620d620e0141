#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace dotresize {

/// Names in a sweep's directory: its results, and the folders of its jobs and of their shared
/// statistics.
inline constexpr char kSweepResults[] = "results.json";
inline constexpr char kSweepVariants[] = "variants";
inline constexpr char kSweepStatistics[] = "statistics";

/// Largest size of a sweep's results, in bytes.
inline constexpr int64_t kMaxSweepBytes = int64_t{64} << 20;

/// Paths in the folder of one job of a sweep.
struct VariantPaths {
  VariantPaths(const std::filesystem::path& sweep, const std::string& id)
      : VariantPaths(sweep / kSweepVariants / id) {}
  explicit VariantPaths(const std::filesystem::path& of_job)
      : dir(of_job),
        model(dir / "model"),
        removed(dir / "model.removed"),
        job(dir / "job.json"),
        log(dir / "log") {}
  std::filesystem::path dir;  ///< has the report at its place in a model directory
  std::filesystem::path model;
  std::filesystem::path removed;  ///< a model that is being removed
  std::filesystem::path job;
  std::filesystem::path log;
};

}  // namespace dotresize
