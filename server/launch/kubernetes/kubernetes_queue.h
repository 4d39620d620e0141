#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/failure.h"
#include "server/launch/kubernetes/kubernetes_api.h"
#include "server/launch/kubernetes/kubernetes_jobs.h"

namespace dotresize {

/// Creates, lists and deletes MPIJobs on its own thread, with one list call for all followed
/// MPIJobs. The API may answer late or not at all: no caller waits for it. Thread-safe.
class KubernetesQueue {
 public:
  KubernetesQueue(KubernetesAccess access, std::chrono::seconds poll);
  ~KubernetesQueue();
  KubernetesQueue(const KubernetesQueue&) = delete;
  KubernetesQueue& operator=(const KubernetesQueue&) = delete;

  struct Answer {
    bool created = false;            ///< it exists, or existed
    bool gone = false;               ///< it no longer exists, and will not be created again
    std::optional<Failure> refusal;  ///< reason why it is not created
    std::optional<MpiJob> job;       ///< last seen state
  };

  struct Order {
    std::string manifest;
    std::map<std::string, std::string> labels;  ///< all must match, besides the name
    bool created = false;                       ///< created already, perhaps by an earlier server
    bool unwanted = false;                      ///< to be deleted, see remove()
  };

  /// Returns the state of the MPIJob `name`, follows it from now on, and creates it from its
  /// manifest if that is not done yet.
  Answer follow(const std::string& name, const Order& order);
  /// Deletes the MPIJob, retrying until it is gone, even one that is created only now.
  void remove(const std::string& name);
  /// Deletes the MPIJob and stops following it once it is gone.
  void forget(const std::string& name);
  /// Error of the last call of the API; empty if it answered.
  std::string fault() const;

 private:
  struct Entry {
    Order order;
    Answer answer;
    bool forgotten = false;
  };

  void loop();
  /// Makes all pending calls of the API. Throws ApiFault and InputError for the first fault.
  void ask();
  void create(KubernetesApi& api, const std::string& name, const std::string& manifest);
  void create_wanted(KubernetesApi& api);
  void look(KubernetesApi& api);
  void remove_unwanted(KubernetesApi& api);
  /// Stores the listed `jobs` for `names`, those followed before the list call.
  void take(const std::vector<std::string>& names, const std::map<std::string, MpiJob>& jobs);
  void set_unwanted(Entry& entry);
  void set_fault(const std::string& fault);

  const KubernetesAccess access_;
  const std::chrono::seconds poll_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, Entry> entries_;  ///< keyed by name
  std::string fault_;
  bool stopping_ = false;
  bool work_pending_ = false;  ///< something is to be created or deleted
  std::thread thread_;         ///< started by the first follow()
};

}  // namespace dotresize
