#include "server/web/answers.h"

#include <httplib.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "base/text/sha256.h"
#include "job/page/page.h"
#include "server/web/frame.h"

namespace dotresize {
namespace {

constexpr char kHtml[] = "text/html; charset=utf-8";
constexpr char kCss[] = "text/css; charset=utf-8";
constexpr char kScript[] = "text/javascript; charset=utf-8";
constexpr size_t kMarkDigits = 16;
constexpr int kSeeOther = 303;
constexpr size_t kFileChunkBytes = size_t{256} << 10;

constexpr char kPolicyOfPages[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
// The document itself declares what it may load. The sandbox makes it a document of another site.
constexpr char kPolicyOfReports[] =
    "sandbox allow-scripts allow-downloads allow-modals; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'";

void set_security_headers(httplib::Response& response) {
  response.set_header("X-Content-Type-Options", "nosniff");
  // "no-referrer" would also remove the Origin from forms.
  response.set_header("Referrer-Policy", "same-origin");
  response.set_header("Cross-Origin-Resource-Policy", "same-origin");
}

}  // namespace

const std::vector<Asset>& assets() {
  static const std::vector<Asset> all = [] {
    std::vector<Asset> files = {
        {"/style.css", kCss, std::string(page_css()) + std::string(web_css()), ""},
        {"/chart.js", kScript, std::string(chart_js()), ""},
        {"/report.js", kScript, page_script(), ""},
        {"/live.js", kScript, std::string(live_js()), ""}};
    for (Asset& file : files) {
      const std::string sha256 = sha256_of_bytes(file.content.data(), file.content.size());
      file.url = file.path + "?" + sha256.substr(0, kMarkDigits);
    }
    return files;
  }();
  return all;
}

const std::string& asset_url(const std::string& path) {
  const auto found = std::ranges::find(assets(), path, &Asset::path);
  if (found == assets().end()) throw std::logic_error("no such asset: " + path);
  return found->url;
}

void send_page(httplib::Response& response, const std::string& html, int status,
               DocumentKind kind) {
  response.status = status;
  set_security_headers(response);
  response.set_header("Content-Security-Policy",
                      kind == DocumentKind::kPage ? kPolicyOfPages : kPolicyOfReports);
  response.set_header("X-Frame-Options", "DENY");
  response.set_header("Cross-Origin-Opener-Policy", "same-origin");
  response.set_header("Cache-Control", "no-store");
  response.set_content(html, kHtml);
}

void send_asset(httplib::Response& response, const Asset& asset) {
  set_security_headers(response);
  response.set_header("Cache-Control", "public, max-age=31536000, immutable");
  response.set_content(asset.content, asset.type);
}

void send_file(httplib::Response& response, ArtifactFile file) {
  set_security_headers(response);
  response.set_header("Content-Security-Policy", "sandbox; default-src 'none'");
  response.set_header("Content-Disposition", "attachment");
  response.set_header("Cache-Control", "no-store");
  const auto size = static_cast<size_t>(file.size());
  const auto shared = std::make_shared<const ArtifactFile>(std::move(file));
  response.set_content_provider(size, "application/octet-stream",
                                [shared](size_t offset, size_t length, httplib::DataSink& sink) {
                                  const std::string data =
                                      shared->read(static_cast<int64_t>(offset),
                                                   std::min(length, kFileChunkBytes));
                                  return !data.empty() && sink.write(data.data(), data.size());
                                });
}

void send_to(httplib::Response& response, const std::string& path) {
  set_security_headers(response);
  response.set_header("Cache-Control", "no-store");
  response.set_redirect(path, kSeeOther);
}

}  // namespace dotresize
