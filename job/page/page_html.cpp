#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/process/program.h"
#include "base/text/encodings.h"
#include "base/text/printable.h"
#include "job/page/page.h"

namespace dotresize {
namespace {

using nlohmann::json;

/// Base64 of the SHA-256 of a script or style sheet, for a Content-Security-Policy.
std::string content_hash(std::string_view content) {
  std::array<char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  if (EVP_Digest(content.data(), content.size(), reinterpret_cast<unsigned char*>(digest.data()),
                 &length, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("OpenSSL has no SHA-256");
  }
  return base64({digest.data(), length});
}

/// Escapes an untrusted text, as one line, for elements and quoted attributes.
std::string escaped(const std::string& text) {
  static const std::map<char, std::string> kEntities = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string html;
  for (const char c : printable(text)) {
    const auto entity = kEntities.find(c);
    html += entity == kEntities.end() ? std::string(1, c) : entity->second;
  }
  return html;
}

/// Copies the template with each {{NAME}} replaced. Values are not looked through again.
std::string filled(std::string_view text, const std::map<std::string_view, std::string>& values) {
  std::string html;
  for (size_t at = text.find("{{"); at != std::string_view::npos; at = text.find("{{")) {
    const size_t end = text.find("}}", at);
    html += text.substr(0, at);
    html += values.at(text.substr(at + 2, end - at - 2));
    text.remove_prefix(end + 2);
  }
  return html.append(text);
}

std::string notices_html(const Page& page) {
  std::string html;
  if (!page.error.empty()) {
    html = fmt::format(
        "<section class=\"error\" aria-labelledby=\"error\"><h2 id=\"error\">Error</h2><p>{}</p>"
        "</section>\n",
        escaped(page.error));
  }
  if (page.warnings.empty()) return html;
  html +=
      "<section class=\"warnings\" aria-labelledby=\"warnings\"><h2 id=\"warnings\">Warnings</h2>"
      "<ul>";
  for (const std::string& warning : page.warnings) html += "<li>" + escaped(warning) + "</li>";
  return html + "</ul></section>\n";
}

/// Copies a document as a page may show it: texts with their line breaks, but without other control
/// characters, and no members that are null.
json shown_part(const json& value) {
  if (value.is_string()) return printable_lines(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value;
  json part = value.is_array() ? json::array() : json::object();
  for (const auto& [key, member] : value.items()) {
    if (value.is_array()) {
      part.push_back(shown_part(member));
    } else if (!member.is_null()) {
      part[printable_lines(key)] = shown_part(member);
    }
  }
  return part;
}

}  // namespace

// Only its end tag ends a script element in HTML, and JSON has < > & only inside strings.
std::string page_json(const json& shown) {
  std::string text;
  for (const char c : shown_part(shown).dump(-1, ' ', /*ensure_ascii=*/true)) {
    if (c == '<' || c == '>' || c == '&') {
      text += "\\u00" + hex_digits(std::string_view(&c, 1));
    } else {
      text += c;
    }
  }
  return text;
}

std::string page_script() {
  std::string script;
  for (const std::string_view part :
       {text_js(), figures_js(), plans_js(), job_js(), models_js(), page_js()}) {
    script += part;
  }
  return script;
}

std::string key_figures_html(const Page& page) {
  const std::vector<std::string>& heading = page.key_figures.front();
  std::string html = fmt::format(
      "<div class=\"tables\"><div class=\"scroll\" role=\"region\" tabindex=\"0\" "
      "aria-label=\"{0}\">\n<table{1}>\n<caption>{0}</caption>\n<thead><tr>",
      escaped(page.caption), heading.size() == 2 ? " class=\"prose\"" : "");
  for (const std::string& cell : heading) html += "<th scope=\"col\">" + escaped(cell) + "</th>";
  html += "</tr></thead>\n<tbody>\n";
  for (size_t i = 1; i < page.key_figures.size(); ++i) {
    const std::vector<std::string>& row = page.key_figures[i];
    html += "<tr><th scope=\"row\">" + escaped(row.front()) + "</th>";
    for (size_t j = 1; j < row.size(); ++j) html += "<td>" + escaped(row[j]) + "</td>";
    html += "</tr>\n";
  }
  return html +
         "</tbody>\n</table>\n</div></div>\n"
         "<noscript><p>These are the key figures. The plots and the other tables need scripts.</p>"
         "</noscript>\n";
}

std::string page_html(const Page& page) {
  const std::string script = page_script();
  return filled(page_template(), {{"KIND", escaped(page.kind)},
                                  {"TITLE", escaped(page.title)},
                                  {"SUMMARY", escaped(page.summary)},
                                  {"NOTICES", notices_html(page)},
                                  {"KEY_FIGURES", key_figures_html(page)},
                                  {"VERSION", escaped(kVersion)},
                                  {"DATA", page.data},
                                  {"CSS", std::string(page_css())},
                                  {"CSS_HASH", content_hash(page_css())},
                                  {"CHART_JS", std::string(chart_js())},
                                  {"CHART_JS_HASH", content_hash(chart_js())},
                                  {"PAGE_JS", script},
                                  {"PAGE_JS_HASH", content_hash(script)}});
}

}  // namespace dotresize
