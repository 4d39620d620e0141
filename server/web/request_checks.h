#pragma once

#include <string>
#include <vector>

namespace dotresize {

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
