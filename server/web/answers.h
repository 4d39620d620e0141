#pragma once

#include <string>
#include <vector>

#include "server/api/artifacts.h"

namespace httplib {
struct Response;
}

namespace dotresize {

/// A file that the pages link to, the same for every visitor.
struct Asset {
  std::string path;  ///< "/style.css"
  std::string type;  ///< MIME type
  std::string content;
  std::string url;  ///< path with a hash of the content, for caching
};

/// The style sheet, the two scripts of the plots, and the script that updates pages.
const std::vector<Asset>& assets();

/// URL of the asset at `path`. Throws std::logic_error if there is none.
const std::string& asset_url(const std::string& path);

enum class DocumentKind {
  kPage,    ///< runs no scripts and loads nothing except assets()
  kReport,  ///< made by page_html(), with scripts; runs sandboxed, without access to the server's
            ///< pages
};

/// Sends an HTML document. It is not cached, and no other page may frame it.
void send_page(httplib::Response& response, const std::string& html, int status = 200,
               DocumentKind kind = DocumentKind::kPage);

/// Sends a file that browsers may cache.
void send_asset(httplib::Response& response, const Asset& asset);

/// Sends a file as a download; answers a range request with that range of bytes.
void send_file(httplib::Response& response, ArtifactFile file);

/// Redirects to a page of this server, after a form.
void send_to(httplib::Response& response, const std::string& path);

}  // namespace dotresize
