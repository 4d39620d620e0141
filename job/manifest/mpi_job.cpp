#include "job/manifest/mpi_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/text/checked_json.h"
#include "base/text/sha256.h"

namespace dotresize {
namespace {

using Pointer = Manifest::json_pointer;

constexpr uint64_t kMaxTemplateBytes = uint64_t{1} << 20;
constexpr int64_t kMiB = int64_t{1} << 20;
// Memory of a rank beside its plan: shared memory, and mpirun's and sshd's share in its pod.
constexpr int64_t kRankExtra = 256 * kMiB;
constexpr int kMaxSlots = 1024;
constexpr char kGpu[] = "nvidia.com/gpu";
constexpr char kVolume[] = "dotresize-job";
/// Shell script that appends the output of the command in "$@" to the file in "$0". exec makes
/// signals reach mpirun itself.
constexpr char kLogged[] = R"(exec "$@" >>"$0" 2>&1)";

/// Places below the replicas of a kind, "Launcher" or "Worker".
constexpr char kPodTemplate[] = "/template";
constexpr char kPod[] = "/template/spec";
constexpr char kContainer[] = "/template/spec/containers/0";

Pointer part_of(const std::string& kind, const std::string& below) {
  return Pointer("/spec/mpiReplicaSpecs/" + kind + below);
}

/// Returns null if the key is absent.
Manifest member(const Manifest& object, const std::string& key) {
  return object.contains(key) ? object.at(key) : Manifest();
}

/// Reason why a job cannot be put into the template; nullopt if it can.
std::optional<std::string> fault_of(const Manifest& base) {
  if (member(base, "apiVersion") != "kubeflow.org/v2beta1" || member(base, "kind") != "MPIJob") {
    return "is not an MPIJob of kubeflow.org/v2beta1";
  }
  for (const char* kind : {"Launcher", "Worker"}) {
    const Pointer first = part_of(kind, kContainer);
    if (!base.contains(first) || !base.at(first).is_object()) {
      return first.to_string() + " must be a container";
    }
  }
  const Manifest& launcher = base.at(part_of("Launcher", kContainer));
  const Manifest command = member(launcher, "command");
  const bool all_texts = std::all_of(command.begin(), command.end(),
                                     [](const Manifest& item) { return item.is_string(); });
  if (!command.is_array() || !all_texts || command.size() < 2) {
    return (part_of("Launcher", kContainer) / "command").to_string() +
           " must be a list: mpirun, its options, then the path of dotresize-worker";
  }
  if (launcher.contains("args")) {
    return (part_of("Launcher", kContainer) / "args").to_string() +
           " must be a part of its command";
  }
  const auto slots = base.at("spec").value("slotsPerWorker", int64_t{1});
  if (slots < 1 || slots > kMaxSlots) {
    return "/spec/slotsPerWorker must be 1 to " + std::to_string(kMaxSlots) +
           ", the most ranks that a pod has";
  }
  if (base.at("spec").value("runLauncherAsWorker", false)) {
    return "/spec/runLauncherAsWorker must be false: the launcher's pod lacks what ranks need";
  }
  if (base.at("spec").value("mpiImplementation", std::string("OpenMPI")) != "OpenMPI") {
    return "/spec/mpiImplementation must be OpenMPI, with which the worker is built";
  }
  return std::nullopt;
}

/// Number of worker pods, and the slots of each.
struct Pods {
  int count = 1;
  int ranks = 1;
};

void add_labels(Manifest& metadata, const MpiJobParts& parts) {
  for (const auto& [key, value] : parts.labels) metadata["labels"][key] = value;
}

/// Starts the attempt only once; another attempt has another name.
void set_policy(Manifest& job, int workers) {
  Manifest& policy = job["spec"]["runPolicy"];
  policy["cleanPodPolicy"] = "Running";
  policy["backoffLimit"] = 0;
  job["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady";
  for (const char* kind : {"Launcher", "Worker"}) {
    Manifest& spec = job[part_of(kind, "")];
    spec["replicas"] = std::string_view(kind) == "Worker" ? workers : 1;
    spec["restartPolicy"] = "Never";
  }
}

Manifest launcher_command(const Manifest& base, const MpiJobParts& parts) {
  Manifest command = Manifest::array();
  if (!parts.log.empty()) command = {"sh", "-c", kLogged, parts.log};
  command.push_back(base.front());
  for (const std::string& word :
       {std::string("-np"), std::to_string(parts.ranks), std::string("-x"),
        fmt::format("OMP_NUM_THREADS={}", parts.cpus)}) {
    command.push_back(word);
  }
  for (size_t i = 1; i < base.size(); ++i) command.push_back(base[i]);
  for (const std::string& word : parts.arguments) command.push_back(word);
  return command;
}

void set_resources(Manifest& resources, const MpiJobParts& parts, const Pods& pods) {
  const int64_t bytes = pods.ranks * (parts.rank_memory + kRankExtra);
  const std::string memory = fmt::format("{}Mi", (bytes + kMiB - 1) / kMiB);
  Manifest& requests = resources["requests"];
  requests["cpu"] = std::to_string(pods.ranks * parts.cpus);
  requests["memory"] = memory;
  requests.erase(std::string(kGpu));
  Manifest& limits = resources["limits"];
  limits["memory"] = memory;
  limits.erase(std::string(kGpu));
  if (parts.gpus) limits[kGpu] = pods.ranks;
}

}  // namespace

Manifest read_mpi_job_template(const std::filesystem::path& file) {
  const std::string origin = file.empty() ? "the built-in MPIJob" : file.string();
  const std::string text =
      file.empty() ? std::string(mpi_job_yaml()) : read_whole_file(file, kMaxTemplateBytes);
  Manifest base = json_of_yaml(text, origin);
  try {
    if (const auto fault = fault_of(base)) throw InputError(origin + ": " + *fault);
    // A trial job finds values of a wrong type now.
    make_mpi_job(base, {"", {{"key", "value"}}, 1, 1, 0, false, {}, "map", ""});
    mounts_directory(base, "/");
  } catch (const Manifest::exception& error) {
    throw InputError(origin + ": a value has another type than in an MPIJob: " + json_fault(error));
  }
  return base;
}

Manifest make_mpi_job(Manifest base, const MpiJobParts& parts) {
  const int most = base.at("spec").value("slotsPerWorker", 1);
  const int count = (parts.ranks + most - 1) / most;
  const Pods pods = {count, (parts.ranks + count - 1) / count};
  base["metadata"]["name"] = parts.name;
  add_labels(base["metadata"], parts);
  base["spec"]["slotsPerWorker"] = pods.ranks;
  base["spec"]["mpiImplementation"] = "OpenMPI";
  set_policy(base, pods.count);
  for (const char* kind : {"Launcher", "Worker"})
    add_labels(base[part_of(kind, kPodTemplate)]["metadata"], parts);
  Manifest& command = base[part_of("Launcher", kContainer)]["command"];
  command = launcher_command(command, parts);
  set_resources(base[part_of("Worker", kContainer)]["resources"], parts, pods);
  if (!parts.config_map.empty()) {
    base[part_of("Worker", kPod)]["volumes"].push_back(
        {{"name", kVolume}, {"configMap", {{"name", parts.config_map}}}});
    base[part_of("Worker", kContainer)]["volumeMounts"].push_back(
        {{"name", kVolume}, {"mountPath", kJobFolder}, {"readOnly", true}});
  }
  return base;
}

bool mounts_directory(const Manifest& base, const std::filesystem::path& directory) {
  const auto holds = [&](const Manifest& mount) {
    const std::filesystem::path rest =
        directory.lexically_relative(mount.at("mountPath").get<std::string>());
    return !rest.empty() && *rest.begin() != "..";
  };
  for (const char* kind : {"Launcher", "Worker"}) {
    const Manifest mounts = member(base.at(part_of(kind, kContainer)), "volumeMounts");
    if (std::none_of(mounts.begin(), mounts.end(), holds)) return false;
  }
  return true;
}

std::string mpi_job_name(const std::string& job_name, const std::string& content) {
  constexpr size_t kMaxWord = 24;
  std::string word;
  for (const unsigned char c : job_name) {
    const bool plain = c < 0x80 && std::isalnum(c) != 0;
    if (plain) word += static_cast<char>(std::tolower(c));
    if (!plain && !word.empty() && word.back() != '-') word += '-';
  }
  word = word.substr(0, kMaxWord);
  while (!word.empty() && word.back() == '-') word.pop_back();
  const std::string digits = sha256_of_bytes(content.data(), content.size()).substr(0, 8);
  return "dotresize-" + (word.empty() ? "" : word + "-") + digits;
}

}  // namespace dotresize
