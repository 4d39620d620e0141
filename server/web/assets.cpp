#include "server/web/assets.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/text/sha256.h"
#include "job/page/page.h"
#include "job/page/page_files.h"
#include "server/web/web_files.h"

namespace dotresize {
namespace {

constexpr char kCss[] = "text/css; charset=utf-8";
constexpr char kScript[] = "text/javascript; charset=utf-8";
constexpr size_t kMarkDigits = 16;

Asset make_asset(const std::string& path, const std::string& type, std::string content) {
  const std::string mark = sha256_of_bytes(content.data(), content.size()).substr(0, kMarkDigits);
  return {path, type, std::move(content), path + "?" + mark};
}

}  // namespace

const std::vector<Asset>& assets() {
  static const std::vector<Asset> all = {
      make_asset("/style.css", kCss, std::string(page_css()) + std::string(web_css())),
      make_asset("/chart.js", kScript, std::string(chart_js())),
      make_asset("/report.js", kScript, page_script()),
      make_asset("/live.js", kScript, std::string(live_js()))};
  return all;
}

const std::string& asset_url(const std::string& path) {
  const auto found = std::ranges::find(assets(), path, &Asset::path);
  if (found == assets().end()) throw std::logic_error("the pages have no " + path);
  return found->url;
}

}  // namespace dotresize
