#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "server/launch/launcher_program.h"

namespace dotresize {

/// Submits, follows and cancels the attempts of one launcher on its own thread, with one status
/// question for all of them: a second after something has changed, then at growing pauses of up to
/// five seconds. The program may answer late or not at all: no caller waits for it.
/// Thread-safe.
class LauncherQueue {
 public:
  /// `name`: the launcher's, for the log. The first question is asked at once, even if there are no
  /// attempts.
  LauncherQueue(std::string name, LauncherProgram program);
  /// Leaves a submission in progress to itself.
  ~LauncherQueue();
  LauncherQueue(const LauncherQueue&) = delete;
  LauncherQueue& operator=(const LauncherQueue&) = delete;

  struct Order {
    std::string request;           ///< standard input of `submit`
    std::filesystem::path folder;  ///< the launcher's own
    std::filesystem::path lock;    ///< held while the attempt is being submitted
    bool fresh = false;            ///< no server has tried to submit it before
    bool submitted = false;        ///< an earlier server knows that it was taken
    bool unwanted = false;         ///< to be cancelled, and not to be submitted any more
  };

  struct Standing {
    bool submitted = false;  ///< the launcher has taken it, or knows it
    /// No process is left: it was asked for after its submission and is not known, or has ended and
    /// was cancelled since.
    bool over = false;
    std::optional<std::string> refusal;    ///< reason why it is not submitted
    std::optional<LauncherAnswer> answer;  ///< the last one
  };

  /// Returns how the attempt stands. Follows it from now on, and submits it if that is not done yet
  /// and the launcher does not know it.
  Standing follow(const std::string& name, const Order& order);
  /// Cancels the attempt; the call is repeated until it succeeds.
  void cancel(const std::string& name);
  void forget(const std::string& name);
  /// Error of the last round of calls; empty if all were answered.
  std::string fault() const;

 private:
  enum class Phase {
    kFound,      ///< an earlier server may have submitted it: the launcher is asked first
    kFresh,      ///< to be submitted; no try was made
    kTried,      ///< to be submitted; a try may have reached the cluster
    kSubmitted,  ///< the launcher has taken it, or knows it
  };

  struct Entry {
    Order order;
    Standing standing;
    Phase phase = Phase::kFound;
    bool cancel_pending = false;
    bool cancelled = false;  ///< a cancel has been answered
  };

  static constexpr std::chrono::seconds kFirstPause{1};  ///< after a change
  static constexpr std::chrono::seconds kLongestPause{5};

  void loop();
  /// Makes all pending calls, the status question last. Returns the first error.
  std::string ask();
  /// Makes `call` for the attempt, if the earlier ones were answered in time. Keeps its error in
  /// `fault` if that is the first one.
  template <class Call>
  void guarded(std::string& fault, bool& late, const Call& call);
  void cancel_unwanted(std::string& fault, bool& late);
  void submit_wanted(std::string& fault, bool& late);
  void submit(const std::string& name, const Order& order);
  void look();
  /// Takes the answer on an attempt, nullopt if the cluster does not know it.
  void take(Entry& entry, std::optional<LauncherAnswer> answer);
  /// Calls `change` for the attempt unless it was forgotten.
  template <class Change>
  void update(const std::string& name, const Change& change);
  void set_fault(const std::string& fault);

  const std::string name_;
  const LauncherProgram program_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, Entry> entries_;  ///< by name
  std::string fault_;
  bool work_pending_ = false;  ///< something is to be submitted or cancelled
  /// Pause before the next question, doubled after each one up to the longest.
  std::chrono::seconds pause_ = kFirstPause;
  std::stop_source stop_;
  std::thread thread_;  ///< last member: it uses all the others
};

}  // namespace dotresize
