#pragma once

#include <string>

#include "server/api/artifacts.h"
#include "server/web/assets.h"

namespace httplib {
struct Response;
}

namespace dotresize {

/// An HTML document that runs no program and loads nothing but assets(). Nobody keeps it, and no
/// other page may have it in a frame.
void send_page(httplib::Response& response, const std::string& html, int status = 200);

/// page_html(): a document with its programs in it, which get no hold of the server's pages.
void send_report(httplib::Response& response, const std::string& html);

/// A file that browsers may keep.
void send_asset(httplib::Response& response, const Asset& asset);

/// A file to be kept, not shown; of a request for a range of its bytes that range.
void send_file(httplib::Response& response, ArtifactFile file);

/// To a page of this server, after a form.
void send_to(httplib::Response& response, const std::string& path);

}  // namespace dotresize
