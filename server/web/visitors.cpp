#include "server/web/visitors.h"

#include <httplib.h>

#include <utility>

#include "server/api_error.h"
#include "server/http/http_origin.h"
#include "server/launch/attempt.h"
#include "server/web/request_checks.h"

namespace dotresize {
namespace {

void require_own_origin(const httplib::Request& request) {
  if (is_own_origin(request.get_header_value("Origin"), request.get_header_value("Host"))) return;
  throw ApiError(grpc::StatusCode::PERMISSION_DENIED, "FOREIGN_FORM",
                 "the form was sent by a page of another site");
}

}  // namespace

Visitors::Visitors(CallGate& gate, const Access& access, std::vector<std::string> host_names,
                   bool tls)
    : gate_(gate),
      access_(access),
      host_names_(std::move(host_names)),
      tls_(tls),
      open_form_token_(make_attempt_token().secret) {}

std::optional<Visitor> Visitors::find(const httplib::Request& request) const {
  Visitor visitor{.origin = origin_of(request)};
  if (access_.open_to_all()) {
    const std::string host = request.get_header_value("Host");
    if (!names_this_machine(host, host_names_)) {
      throw ApiError(grpc::StatusCode::PERMISSION_DENIED, "FOREIGN_HOST",
                     "without --tokens the pages are shown only under an address or the name of "
                     "the server's machine, and localhost");
    }
    visitor.caller = Caller{};
    visitor.origin.caller = visitor.caller;
    visitor.form_token = open_form_token_;
    return visitor;
  }
  if (!visitor.origin.token.empty()) return visitor;
  const std::string id = cookie_in(request.get_header_value("Cookie"), cookie_name(request));
  const auto session = sessions_.find(id);
  if (!session) return std::nullopt;
  visitor.caller = session->caller;
  visitor.origin.caller = session->caller;
  visitor.form_token = session->form_token;
  visitor.session = id;
  return visitor;
}

grpc::Status Visitors::check_form(const char* method, const Visitor& visitor, const std::string& id,
                                  const httplib::Request& request) {
  return gate_.serve(
      method, visitor.origin, Role::kRead, id, [&](const Caller&, const std::string&) {
        require_own_origin(request);
        const std::string token = request.get_param_value("form_token");
        if (visitor.form_token.empty() || !matches_token(token, token_hash(visitor.form_token))) {
          throw ApiError(grpc::StatusCode::PERMISSION_DENIED, "BAD_FORM",
                         "the form is not one of this session: load the page again");
        }
      });
}

grpc::Status Visitors::sign_in(const httplib::Request& request, httplib::Response& response) {
  CallOrigin origin = origin_of(request);
  origin.token = request.get_param_value("token");
  return gate_.serve("SignIn", origin, Role::kRead, "",
                     [&](const Caller& caller, const std::string&) {
                       require_own_origin(request);
                       set_cookie(request, sessions_.open(caller), response);
                     });
}

void Visitors::sign_out(const Visitor& visitor, const httplib::Request& request,
                        httplib::Response& response) {
  sessions_.close(visitor.session);
  set_cookie(request, "", response);
}

std::string Visitors::cookie_name(const httplib::Request& request) const {
  // Browsers share cookies between the ports of a host, so each server needs its own cookie name.
  return (tls_ ? "__Host-dotresize-" : "dotresize-") + std::to_string(request.local_port);
}

void Visitors::set_cookie(const httplib::Request& request, const std::string& session,
                          httplib::Response& response) const {
  response.set_header("Set-Cookie",
                      cookie_name(request) + "=" + session + "; Path=/; HttpOnly; SameSite=Strict" +
                          (tls_ ? "; Secure" : "") + (session.empty() ? "; Max-Age=0" : ""));
}

}  // namespace dotresize
