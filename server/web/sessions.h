#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "base/process/mutex.h"
#include "server/access/access.h"

namespace dotresize {

/// Sessions of the web pages. Kept in memory: all sessions end with the server. Thread-safe.
class Sessions {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::hours kLifetime{12};
  static constexpr size_t kMaxOfCaller = 16;

  struct Session {
    Credential credential;   ///< whose token's line says who the caller is, at each request
    std::string form_token;  ///< secret in the forms of the session's pages
  };

  /// Opens a session for the caller of this NAME and returns its id, a secret. If the NAME has too
  /// many sessions, the oldest one ends.
  std::string open(const std::string& name, const Credential& credential,
                   Clock::time_point now = Clock::now());
  /// Returns nullopt for an unknown or expired session.
  std::optional<Session> find(const std::string& id, Clock::time_point now = Clock::now()) const;
  void close(const std::string& id);

 private:
  struct Entry {
    Session session;
    std::string name;
    Clock::time_point opened;
  };

  mutable Mutex mutex_;
  /// Keyed by the hash of the id, so that the time of a look-up reveals nothing about the ids.
  std::map<std::string, Entry> entries_ DOTRESIZE_GUARDED_BY(mutex_);
};

}  // namespace dotresize
