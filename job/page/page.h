#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "job/report/report_tables.h"
#include "job/report/stored_report.h"

namespace dotresize {

/// Contents of a page: the words and the table that stand in its HTML, and the JSON from which its
/// script makes the other tables and the figures. Texts are untrusted: they may be invalid UTF-8,
/// and are escaped.
struct Page {
  std::string kind = {};     ///< "Compression", "Sweep"
  std::string title = {};    ///< the job's name
  std::string summary = {};  ///< one sentence
  std::string error = {};    ///< reason why the job has failed; empty: it has not
  std::vector<std::string> warnings = {};
  std::string caption = {};  ///< heading of the key figures
  /// Titles of the columns, then rows that begin with a name.
  std::vector<std::vector<std::string>> key_figures = {};
  std::string data = {};  ///< page_json() of what is shown
};

/// Name of the page beside the report or results that it shows.
inline constexpr char kPageFile[] = "report.html";

/// Page for one job: its settings and its results.
Page report_page(const StoredReport& report);

/// Page for a sweep, from the text of its results.json. Throws InputError, starting with `origin`,
/// for a malformed one.
Page sweep_page(const std::string& results, const std::string& origin);

/// Page that compares several compressions: the rows of comparison_table, and perplexity over net
/// size.
Page comparison_page(const std::vector<ComparedModel>& models);

/// A job that ended without a result.
struct EndedJob {
  std::string name = {};
  std::string state = {};  ///< "failed", "cancelled"
  std::string error = {};  ///< empty: no error is known
  /// Names and values, such as time, rank and host.
  std::vector<std::vector<std::string>> facts = {};
  std::string spec = {};      ///< the job as JSON
  std::string log_tail = {};  ///< last bytes of the log; empty: no log
};

/// Page that explains why there is no result.
Page failure_page(const EndedJob& job);

/// Renders one self-contained UTF-8 HTML document that needs no network. Styles, script, Chart.js
/// and data are embedded, and its Content-Security-Policy allows nothing else.
std::string page_html(const Page& page);

/// HTML of the key figures, to which the script adds the rest: the content of the element #report
/// of a document with page.css. The document's element #data has page.data.
std::string key_figures_html(const Page& page);

/// JSON for the script, safe inside a script element: none of < > &, nothing but ASCII, no control
/// characters but line feeds and tabs in its texts, and no members that are null.
std::string page_json(const nlohmann::json& shown);

/// Script of a page: the parts in this folder, in the order in which they need each other.
std::string page_script();

// Files that are embedded in every page, byte for byte.

/// page.html, with {{NAME}} where values go.
std::string_view page_template();
std::string_view page_css();
// Parts of the script.
std::string_view text_js();
std::string_view figures_js();
std::string_view plans_js();
std::string_view job_js();
std::string_view models_js();
std::string_view page_js();
/// Chart.js (MIT License), minified.
std::string_view chart_js();

}  // namespace dotresize
