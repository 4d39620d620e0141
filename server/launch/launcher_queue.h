#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/process/mutex.h"
#include "server/launch/launcher_program.h"

namespace dotresize {

/// Submits, follows and cancels the attempts of one launcher on its own thread, in rounds, each
/// with one status question for all of them: a second after something has changed, then at growing
/// pauses of up to five seconds. The program may answer late or not at all: no caller waits for it,
/// and a call for one attempt that takes too long keeps none for another from its turn.
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

  /// Errors of the last round of calls, printable; empty: there are none.
  struct Faults {
    std::string last_round;  ///< the first one
    std::string start;       ///< the first one after which no other attempt is to be started

    void add(const std::string& what, bool holds);
  };
  Faults faults() const;

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
  /// Makes the pending calls for single attempts, as many as the time of a round allows.
  void make_calls(Faults& faults);
  void submit(const std::string& name, const Order& order);
  /// Asks how all attempts stand.
  void look();
  /// Calls `change` for the attempt unless it was forgotten.
  void update(const std::string& name, const std::function<void(Entry&)>& change);

  const std::string name_;
  const LauncherProgram program_;
  std::string last_;  ///< the attempt behind which the next round begins; of the thread
  mutable Mutex mutex_;
  Condition wake_;
  std::map<std::string, Entry> entries_ DOTRESIZE_GUARDED_BY(mutex_);  ///< by name
  Faults faults_ DOTRESIZE_GUARDED_BY(mutex_);
  bool work_pending_ DOTRESIZE_GUARDED_BY(mutex_) =
      false;  ///< something is to be submitted or cancelled
  /// Pause before the next question, doubled after each one up to the longest.
  std::chrono::seconds pause_ DOTRESIZE_GUARDED_BY(mutex_) = kFirstPause;
  std::stop_source stop_;
  std::thread thread_;  ///< last member: it uses all the others
};

}  // namespace dotresize
