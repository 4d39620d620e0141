#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/report/transport_picture.h"

namespace dotresize {

/// One point of a figure.
struct Point {
  double x = 0.0;  ///< index of the category, in a figure with categories
  double y = 0.0;
  std::string label = {};  ///< description, unless the series gives it
};

struct Series {
  std::string name = {};
  std::vector<Point> points = {};
  bool line = true;   ///< joins the points in their order; only in figures without bars
  bool marks = true;  ///< draws each point
};

struct Axis {
  std::string title = {};  ///< includes the unit
  bool log = false;
  bool from_zero = false;
};

/// A plot, with a text and data that say the same.
struct Figure {
  std::string id = {};  ///< letters and '-'; also the name of its file
  std::string title = {};
  std::string text = {};  ///< main numbers of the figure, in words
  Axis x = {};
  Axis y = {};
  std::vector<std::string> categories = {};  ///< categories of x; empty: x is a number
  bool bars = false;                         ///< stacked bars over the categories
  std::vector<Series> series = {};
  std::string csv = {};  ///< all data of the figure
};

/// A transport plan as an image.
struct Plan {
  std::string name = {};  ///< name of the junction
  std::string text = {};  ///< description of the image, in words
  TransportPicture picture = {};
};

/// Plans with a common colour scale. Some are shown, and the reader may choose others.
struct PlanGallery {
  std::string text = {};  ///< explanation for the reader
  std::string x = {};     ///< title of the columns
  std::string y = {};     ///< title of the rows
  std::vector<Plan> plans = {};
};

struct PageTable {
  std::string caption = {};
  std::vector<std::string> heading = {};
  std::vector<std::vector<std::string>> rows = {};  ///< the first cell of each row is a name
  bool prose = false;                               ///< the last column has words, not numbers
};

/// A text that keeps its line breaks.
struct PageText {
  std::string heading = {};
  std::string text = {};
  bool tail = false;  ///< the end is the important part
};

/// Contents of a page. Texts are untrusted: they may be invalid UTF-8, and are escaped.
struct Page {
  std::string kind;     ///< "Compression", "Sweep"
  std::string title;    ///< the job's name
  std::string summary;  ///< one sentence
  std::string error;    ///< reason why the job has failed; empty: it has not
  std::vector<std::string> warnings;
  std::vector<PageTable> tables;
  std::vector<Figure> figures;
  std::optional<PlanGallery> plans;  ///< shown below the figures
  std::vector<PageText> texts;
  std::vector<PageTable> details;  ///< shown at the end of the page
};

/// Name of the page beside the report or results that it shows.
inline constexpr char kPageFile[] = "report.html";

/// CSV of a figure with the columns series, x, y, and label if any point has one.
std::string csv_of(const Figure& figure);

/// Returns true if all values of the coordinate are positive and so far apart that the axis should
/// be logarithmic.
bool spans_orders(const std::vector<Series>& series, double Point::*of);

/// Formats with four significant digits: "17", "0.0123", "1.2e-08".
std::string short_number(double value);

}  // namespace dotresize
