#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/access/call_gate.h"
#include "server/web/sessions.h"

namespace httplib {
struct Request;
struct Response;
}  // namespace httplib

namespace dotresize {

/// Who looks at a page, or sends a form of one.
struct Visitor {
  CallOrigin origin;
  Caller caller = {"", Role::kRead};  ///< with a bearer token it is not known before the first call
  std::string form_token = {};        ///< that his forms must carry; empty: he may send none
  std::string session = {};           ///< id; empty: he has not signed in
};

/// Tells who that is. With tokens: whose token or session the request carries. Without: anybody who
/// calls this machine by a name of its own, for a page of another site may have any other (DNS
/// rebinding). Safe to use from any thread.
class Visitors {
 public:
  /// `gate` and `access` outlive it. `host_names`: of this machine, beside localhost and addresses.
  /// `tls`: whether cookies are for HTTPS alone.
  Visitors(CallGate& gate, const Access& access, std::vector<std::string> host_names, bool tls);

  /// Nothing if he must say first who he is. PERMISSION_DENIED for another Host.
  std::optional<Visitor> find(const httplib::Request& request) const;

  /// PERMISSION_DENIED, with a line in the audit log for the call `method` on the job `id`, unless
  /// a page of this visitor has sent the form.
  grpc::Status check_form(const char* method, const Visitor& visitor, const std::string& id,
                          const httplib::Request& request);

  /// A session for the token in the form; its cookie is added to the answer.
  grpc::Status sign_in(const httplib::Request& request, httplib::Response& response);
  /// Ends the session.
  void sign_out(const Visitor& visitor, const httplib::Request& request,
                httplib::Response& response);

 private:
  std::string cookie_name(const httplib::Request& request) const;
  /// Empty: the browser is to forget it.
  void set_cookie(const httplib::Request& request, const std::string& session,
                  httplib::Response& response) const;

  CallGate& gate_;
  const Access& access_;
  const std::vector<std::string> host_names_;
  const bool tls_;
  const std::string open_form_token_;  ///< of everybody, if there are no tokens
  Sessions sessions_;
};

}  // namespace dotresize
