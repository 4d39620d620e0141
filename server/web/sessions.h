#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "server/access/access.h"

namespace dotresize {

/// Who has signed in to the web pages. Kept in memory: with the server all sessions end. Safe to
/// use from any thread.
class Sessions {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::hours kLifetime{12};
  static constexpr size_t kMaxOfCaller = 16;

  struct Session {
    Caller caller;
    std::string form_token;  ///< a secret that the forms of the session's pages carry
  };

  /// A new session; returns its id, a secret. If the caller has too many, the oldest one ends.
  std::string open(const Caller& caller, Clock::time_point now = Clock::now());
  /// Nothing if there is no such session (any more).
  std::optional<Session> find(const std::string& id, Clock::time_point now = Clock::now()) const;
  void close(const std::string& id);

 private:
  struct Entry {
    Session session;
    Clock::time_point opened;

    bool is_over(Clock::time_point now) const { return now - opened >= kLifetime; }
  };

  void make_room_for(const std::string& caller, Clock::time_point now);

  mutable std::mutex mutex_;
  /// By the hash of the id: how long a look-up takes says nothing of the ids that there are.
  std::map<std::string, Entry> entries_;
};

}  // namespace dotresize
