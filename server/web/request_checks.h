#pragma once

#include <string>
#include <vector>

namespace dotresize {

/// Whether the Host header of a request names the machine itself: by an IP address, as localhost,
/// or by one of `names`. A page of another site whose name leads to this machine (DNS rebinding) is
/// known by its own name in it.
bool names_this_machine(const std::string& host, const std::vector<std::string>& names);

/// Whether a form with this Origin header was sent by a page of the server that the Host header
/// names. Programs send no Origin: empty.
bool is_own_origin(const std::string& origin, const std::string& host);

/// The value of the cookie `name` in a Cookie header; empty if it is not there.
std::string cookie_in(const std::string& header, const std::string& name);

/// Whether this is the path of a page that shows something: where a form may lead back to.
bool is_page(const std::string& path);

}  // namespace dotresize
