#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dotresize {

/// An object of Kubernetes, its keys in the order in which people write them.
using Manifest = nlohmann::ordered_json;

/// What one attempt of a job puts into an MPIJob (kubeflow.org/v2beta1, of mpi-operator).
struct MpiJobParts {
  std::string name;  ///< its pods are NAME-launcher-... and NAME-worker-N: a DNS label, 50 bytes
  std::map<std::string, std::string> labels;  ///< of the MPIJob and its pods
  int ranks = 1;
  int cpus = 1;             ///< of a rank: its threads
  int64_t rank_memory = 0;  ///< bytes of host memory that the largest rank needs, by the plan
  bool gpus = false;        ///< one for each rank, to itself
  std::vector<std::string> arguments;  ///< of the worker
  std::string config_map;  ///< whose entries the ranks see as files in kJobFolder; empty: none
  std::string log;         ///< file to which mpirun's output is appended; empty: the pod's log
};

inline constexpr char kJobFolder[] = "/job";

/// The MPIJob that jobs are put into, its image, volumes and all else that is the cluster's: that
/// of the file (YAML or JSON), or the built-in deploy/kubernetes/mpijob.yaml if `file` is empty.
/// Throws InputError, naming the file and the key, for one into which no job can be put.
Manifest read_mpi_job_template(const std::filesystem::path& file);

/// The template with the job in it. The ranks are spread over as few pods of at most
/// `spec.slotsPerWorker` ranks as they need, each pod with as many ranks, or one less.
Manifest make_mpi_job(Manifest base, const MpiJobParts& parts);

/// Whether launcher and workers of the template have a volume at this directory or above it.
bool mounts_directory(const Manifest& base, const std::filesystem::path& directory);

/// "dotresize-...", a label of DNS of at most 43 bytes for a job of this name and content.
std::string mpi_job_name(const std::string& job_name, const std::string& content);

}  // namespace dotresize
