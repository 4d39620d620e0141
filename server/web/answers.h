#pragma once

#include <string>

#include "server/api/artifacts.h"
#include "server/web/assets.h"

namespace httplib {
struct Response;
}

namespace dotresize {

/// Sends an HTML document that runs no scripts and loads nothing except assets(). It is not cached,
/// and no other page may frame it.
void send_page(httplib::Response& response, const std::string& html, int status = 200);

/// Sends a document of page_html(), which contains its scripts. It runs sandboxed, without access
/// to the server's pages.
void send_report(httplib::Response& response, const std::string& html);

/// Sends a file that browsers may cache.
void send_asset(httplib::Response& response, const Asset& asset);

/// Sends a file as a download; answers a range request with that range of bytes.
void send_file(httplib::Response& response, ArtifactFile file);

/// Redirects to a page of this server, after a form.
void send_to(httplib::Response& response, const std::string& path);

}  // namespace dotresize
