#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace dotresize {

/// A Kubernetes object, its keys in the usual written order.
using Manifest = nlohmann::ordered_json;

/// Parts of an MPIJob (kubeflow.org/v2beta1, of mpi-operator) that depend on the job's attempt.
struct MpiJobParts {
  std::string name;  ///< a DNS label, at most 50 bytes; pods: NAME-launcher-..., NAME-worker-N
  std::map<std::string, std::string> labels;  ///< labels of the MPIJob and its pods
  int ranks = 1;
  int cpus = 1;                        ///< CPUs of a rank, one per thread
  int64_t rank_memory = 0;             ///< planned host memory of the largest rank, in bytes
  bool gpus = false;                   ///< each rank has one GPU to itself
  std::vector<std::string> arguments;  ///< arguments of the worker
  std::string config_map;  ///< its entries are the ranks' files in kJobFolder; empty: no config map
  std::string log;         ///< file that mpirun's output is appended to; empty: the pod's log
};

inline constexpr char kJobFolder[] = "/job";

/// Content of deploy/kubernetes/mpijob.yaml, as it was at the build.
std::string_view mpi_job_yaml();

/// Reads the MPIJob that jobs are put into, with the cluster's image, volumes and other settings,
/// from a YAML or JSON file. An empty `file` means the built-in deploy/kubernetes/mpijob.yaml.
/// Throws InputError, naming the file and the key, if no job can be put into it.
Manifest read_mpi_job_template(const std::filesystem::path& file);

/// Puts the job into the template, with the fewest worker pods that hold its ranks with at most
/// `spec.slotsPerWorker` each. All pods get the same number of slots, ceil(ranks / pods).
Manifest make_mpi_job(Manifest base, const MpiJobParts& parts);

/// Returns true if launcher and workers of the template have a volume at this directory or above
/// it.
bool mounts_directory(const Manifest& base, const std::filesystem::path& directory);

/// "dotresize-...", a DNS label of at most 43 bytes, derived from the job's name and content.
std::string mpi_job_name(const std::string& job_name, const std::string& content);

/// Converts a YAML map to JSON. Plain scalars that look like null, booleans (true, false) or
/// numbers become these, all others texts. Throws InputError, starting with `origin`, for
/// everything that load_yaml (job/spec/yaml_file.h) refuses, for a key that is repeated or not a
/// text, and for more than 100000 values (an alias counts like its target) or 64 levels.
nlohmann::ordered_json json_of_yaml(const std::string& text, const std::string& origin);

/// Writes the content as one YAML document for people; it ends with a newline.
std::string yaml_of_json(const nlohmann::ordered_json& document);

}  // namespace dotresize
