#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/report/transport_picture.h"

namespace dotresize {

/// One value of a figure.
struct Point {
  double x = 0.0;  ///< of a figure with categories: the number of one, from 0
  double y = 0.0;
  std::string label = {};  ///< what it is, if its series does not say so
};

struct Series {
  std::string name = {};
  std::vector<Point> points = {};
  bool line = true;   ///< joined in their order; of a figure without bars
  bool marks = true;  ///< each drawn as a point
};

struct Axis {
  std::string title = {};  ///< with its unit
  bool log = false;
  bool from_zero = false;
};

/// A plot with what says the same without it.
struct Figure {
  std::string id = {};  ///< letters and '-'; names its file, too
  std::string title = {};
  std::string text = {};  ///< its essential figures in words
  Axis x = {};
  Axis y = {};
  std::vector<std::string> categories = {};  ///< of x; empty: numbers
  bool bars = false;                         ///< stacked ones, over the categories
  std::vector<Series> series = {};
  std::string csv = {};  ///< all of its data
};

/// A transport plan as an image.
struct Plan {
  std::string name = {};  ///< of the junction
  std::string text = {};  ///< what is to be seen, in words
  TransportPicture picture = {};
};

/// Plans with one scale of colours, of which some are shown and the reader chooses others.
struct PlanGallery {
  std::string text = {};  ///< how to read them
  std::string x = {};     ///< what columns are
  std::string y = {};     ///< what rows are
  std::vector<Plan> plans = {};
};

struct PageTable {
  std::string caption = {};
  std::vector<std::string> heading = {};
  std::vector<std::vector<std::string>> rows = {};  ///< the first cell of each is a name
  bool prose = false;  ///< the last column has words, the others numbers
};

/// A text whose lines are kept.
struct PageText {
  std::string heading = {};
  std::string text = {};
  bool tail = false;  ///< its end is what matters
};

/// What a page says. Texts may be anybody's: they need not be UTF-8, and are escaped.
struct Page {
  std::string kind;     ///< "Compression", "Sweep"
  std::string title;    ///< the job's name
  std::string summary;  ///< a sentence
  std::string error;    ///< why the job has failed, or empty
  std::vector<std::string> warnings;
  std::vector<PageTable> tables;
  std::vector<Figure> figures;
  std::optional<PlanGallery> plans;  ///< below the figures
  std::vector<PageText> texts;
  std::vector<PageTable> details;  ///< below all of these
};

/// One HTML document that needs no other file and no network: style, program, Chart.js and data are
/// in it, and its Content-Security-Policy allows nothing else. UTF-8.
std::string page_html(const Page& page);

/// Its name beside the file that it shows.
inline constexpr char kPageFile[] = "report.html";

/// The columns of a figure with categories, or of one without: series, x, y, and label if points
/// have one.
std::string csv_of(const Figure& figure);

/// Whether the values of one coordinate are positive and so far apart that an axis should be
/// logarithmic.
bool spans_orders(const std::vector<Series>& series, double Point::*of);

/// "17", "0.0123", "1.2e-08": four significant digits.
std::string short_number(double value);

}  // namespace dotresize
