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
#include "server/launch/kubernetes_api.h"
#include "server/launch/kubernetes_jobs.h"

namespace dotresize {

/// Has the Kubernetes API make, tell of and delete MPIJobs, on a thread of its own: one list for
/// all that are followed. The API may answer late or not at all: nobody waits for it. Safe to use
/// from any thread.
class KubernetesQueue {
 public:
  KubernetesQueue(KubernetesAccess access, std::chrono::seconds poll);
  ~KubernetesQueue();
  KubernetesQueue(const KubernetesQueue&) = delete;
  KubernetesQueue& operator=(const KubernetesQueue&) = delete;

  struct Answer {
    bool created = false;            ///< the API has it, or had it
    bool gone = false;               ///< it has it no more, and will not
    std::optional<Failure> refusal;  ///< why it is not created
    std::optional<MpiJob> job;       ///< as it was seen last
  };

  struct Order {
    std::string manifest;
    std::map<std::string, std::string> labels;  ///< one of its name that has others is not it
    bool created = false;                       ///< it has been, also by an earlier server
    bool unwanted = false;                      ///< see remove()
  };

  /// How the MPIJob of this name stands. Follows it from now on, and has it made of its manifest if
  /// it is not yet.
  Answer follow(const std::string& name, const Order& order);
  /// Has the MPIJob deleted, again and again until it is gone: also one that is created only now.
  void remove(const std::string& name);
  /// The same, and follows it no longer than that.
  void forget(const std::string& name);
  /// Why the API has not answered the last question; empty if it has.
  std::string fault() const;

 private:
  struct Entry {
    Order order;
    Answer answer;
    bool forgotten = false;
  };

  void loop();
  /// Asks all there is to ask. Throws ApiFault and InputError for the first fault.
  void ask();
  void create(KubernetesApi& api, const std::string& name, const std::string& manifest);
  void create_wanted(KubernetesApi& api);
  void look(KubernetesApi& api);
  void remove_unwanted(KubernetesApi& api);
  /// Takes what the API has of the names that were followed before it was asked.
  void take(const std::vector<std::string>& names, const std::map<std::string, MpiJob>& jobs);
  void set_unwanted(Entry& entry);
  void set_fault(const std::string& fault);

  const KubernetesAccess access_;
  const std::chrono::seconds poll_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, Entry> entries_;  ///< by name
  std::string fault_;
  bool stopping_ = false;
  bool hurry_ = false;  ///< there is something to make or delete
  std::thread thread_;  ///< from the first follow() on
};

}  // namespace dotresize
