#pragma once

#include <filesystem>
#include <string>

namespace dotresize {

/// In a sweep's directory: its result, and the directories of its jobs and of the statistics that
/// they share.
inline constexpr char kSweepResults[] = "results.json";
inline constexpr char kSweepVariants[] = "variants";
inline constexpr char kSweepStatistics[] = "statistics";

/// Where a job of a sweep leaves what.
struct VariantPaths {
  VariantPaths(const std::filesystem::path& sweep, const std::string& id)
      : VariantPaths(sweep / kSweepVariants / id) {}
  explicit VariantPaths(const std::filesystem::path& of_job)
      : dir(of_job),
        model(dir / "model"),
        removed(dir / "model.removed"),
        job(dir / "job.json"),
        log(dir / "log") {}
  std::filesystem::path dir;  ///< with the report where a model directory has it
  std::filesystem::path model;
  std::filesystem::path removed;  ///< what is being removed of a model
  std::filesystem::path job;
  std::filesystem::path log;
};

}  // namespace dotresize
