#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/process/mutex.h"
#include "server/access/call_gate.h"

namespace httplib {
struct Request;
struct Response;
}  // namespace httplib

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

/// A visitor who loads a page or sends a form.
struct Visitor {
  CallOrigin origin;
  Caller caller = {"", Role::kRead};  ///< unknown with a bearer token, which gets no forms
  std::string form_token = {};        ///< required in forms; empty: no forms allowed
  std::string session = {};           ///< session id; empty: not signed in
};

/// Identifies visitors. With tokens: by the token or session that the request carries. Without
/// tokens, anybody may visit who calls this machine by one of its own names; a page of another site
/// may use any other name (DNS rebinding). Thread-safe.
class Visitors {
 public:
  /// `gate` and `access` outlive the object. `host_names`: names of this machine besides localhost
  /// and addresses. `tls`: cookies are for HTTPS only.
  Visitors(CallGate& gate, const Access& access, std::vector<std::string> host_names, bool tls);

  /// Returns nullopt if the visitor must sign in first, also because the session's token has been
  /// revoked. Throws PERMISSION_DENIED for a foreign
  /// Host.
  std::optional<Visitor> find(const httplib::Request& request);

  /// Checks that a page of this visitor has sent the form. Otherwise returns PERMISSION_DENIED,
  /// with a line in the audit log for the call `method` on the job `id`.
  grpc::Status check_form(const char* method, const Visitor& visitor, const std::string& id,
                          const httplib::Request& request);

  /// Opens a session for the token in the form and adds its cookie to the answer.
  grpc::Status sign_in(const httplib::Request& request, httplib::Response& response);
  /// Ends the session and deletes its cookie.
  void sign_out(const Visitor& visitor, const httplib::Request& request,
                httplib::Response& response);

 private:
  std::string cookie_name(const httplib::Request& request) const;
  /// Sets the session's cookie; an empty `session` deletes it.
  void set_cookie(const httplib::Request& request, const std::string& session,
                  httplib::Response& response) const;

  CallGate& gate_;
  const Access& access_;
  const std::vector<std::string> host_names_;
  const bool tls_;
  const std::string open_form_token_;  ///< everybody's, if there are no tokens
  Sessions sessions_;
};

/// True if the Host header of a request names this machine: an IP address, localhost, or one of
/// `names`. Defends against DNS rebinding: a page of another site whose name resolves to this
/// machine sends its own name.
bool names_this_machine(const std::string& host, const std::vector<std::string>& names);

/// True if a form with this Origin header was sent by a page of the server that the Host header
/// names, or by a program, which sends no Origin (empty).
bool is_own_origin(const std::string& origin, const std::string& host);

/// Value of the cookie `name` in a Cookie header; empty if absent.
std::string cookie_in(const std::string& header, const std::string& name);

/// True if this is the path of a page to which a form may lead back.
bool is_page(const std::string& path);

}  // namespace dotresize
