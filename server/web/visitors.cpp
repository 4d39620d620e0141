#include "server/web/visitors.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/text/printable.h"
#include "server/access/access.h"
#include "server/common/api_error.h"
#include "server/http/http_server.h"

namespace dotresize {
namespace {

bool same_name(const std::string& a, const std::string& b) {
  return ::strcasecmp(a.c_str(), b.c_str()) == 0;
}

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
      open_form_token_(make_secret_token().secret) {}

std::optional<Visitor> Visitors::find(const httplib::Request& request) {
  Visitor visitor{.origin = origin_of(request)};
  if (access_.open_to_all) {
    const std::string host = request.get_header_value("Host");
    if (!names_this_machine(host, host_names_)) {
      throw ApiError(grpc::StatusCode::PERMISSION_DENIED, "FOREIGN_HOST",
                     "without --tokens the pages are shown only under an address or the name of "
                     "the server's machine, and localhost");
    }
    visitor.caller = access_.caller_of(visitor.origin.credential);
    visitor.form_token = open_form_token_;
    return visitor;
  }
  if (!visitor.origin.credential.is_empty()) return visitor;
  const std::string id = cookie_in(request.get_header_value("Cookie"), cookie_name(request));
  const auto session = sessions_.find(id);
  if (!session) return std::nullopt;
  try {
    visitor.caller = access_.caller_of(session->credential);
  } catch (const ApiError&) {
    sessions_.close(id);
    return std::nullopt;
  }
  visitor.origin.credential = session->credential;
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
                         "the form belongs to another session: load the page again");
        }
      });
}

grpc::Status Visitors::sign_in(const httplib::Request& request, httplib::Response& response) {
  CallOrigin origin = origin_of(request);
  origin.credential = Credential(request.get_param_value("token"));
  return gate_.serve(
      "SignIn", origin, Role::kRead, "", [&](const Caller& caller, const std::string&) {
        require_own_origin(request);
        set_cookie(request, sessions_.open(caller.name, origin.credential), response);
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

bool names_this_machine(const std::string& host, const std::vector<std::string>& names) {
  // "HOST" of "HOST:PORT", "::1" of "[::1]:80".
  const std::string name =
      host.starts_with('[') ? host.substr(1, host.find(']') - 1) : host.substr(0, host.find(':'));
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(AF_INET, name.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), address.data()) == 1 || same_name(name, "localhost") ||
         std::ranges::any_of(names, [&](const auto& own) { return same_name(name, own); });
}

bool is_own_origin(const std::string& origin, const std::string& host) {
  if (origin.empty()) return true;
  constexpr std::string_view kSchemeEnd = "://";
  const size_t end = origin.find(kSchemeEnd);
  return end != std::string::npos && !host.empty() &&
         same_name(origin.substr(end + kSchemeEnd.size()), host);
}

std::string cookie_in(const std::string& header, const std::string& name) {
  const std::string wanted = name + "=";
  for (size_t begin = 0; begin < header.size();) {
    const size_t end = std::min(header.find(';', begin), header.size());
    const std::string_view pair = std::string_view(header).substr(begin, end - begin);
    if (pair.starts_with(wanted)) return std::string(pair.substr(wanted.size()));
    begin = std::min(header.find_first_not_of("; ", end), header.size());
  }
  return "";
}

bool is_page(const std::string& path) {
  constexpr std::string_view kJobs = "/jobs";
  if (path == "/" || path == kJobs) return true;
  const std::string folder = std::string(kJobs) + "/";
  return path.starts_with(folder) && path.size() > folder.size() &&
         is_plain_word(std::string_view(path).substr(folder.size()), "-");
}

std::string Sessions::open(const std::string& name, const Credential& credential,
                           Clock::time_point now) {
  const SecretToken id = make_secret_token();
  const Session session{credential, make_secret_token().secret};
  const Lock lock(mutex_);
  std::erase_if(entries_,
                [&](const auto& entry) { return now - entry.second.opened >= kLifetime; });
  size_t count = 0;
  auto oldest = entries_.end();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (at->second.name != name) continue;
    ++count;
    if (oldest == entries_.end() || at->second.opened < oldest->second.opened) oldest = at;
  }
  if (count >= kMaxOfCaller) entries_.erase(oldest);
  entries_[id.sha256] = {session, name, now};
  return id.secret;
}

std::optional<Sessions::Session> Sessions::find(const std::string& id,
                                                Clock::time_point now) const {
  const Lock lock(mutex_);
  const auto found = entries_.find(token_hash(id));
  if (found == entries_.end() || now - found->second.opened >= kLifetime) return std::nullopt;
  return found->second.session;
}

void Sessions::close(const std::string& id) {
  const Lock lock(mutex_);
  entries_.erase(token_hash(id));
}

}  // namespace dotresize
