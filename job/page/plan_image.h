#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "job/report/transport_picture.h"

namespace dotresize {

/// Red, green, blue and opacity of each colour that a picture has, by its number. The first one is
/// no colour at all.
using Palette = std::array<std::array<uint8_t, 4>, 256>;

/// The colours of masses in all pictures of a page: viridis over the logarithm of what they have,
/// so that one colour is one mass wherever it stands. The number of a colour is a level of
/// TransportPicture, less the picture's shift.
class ColourScale {
 public:
  explicit ColourScale(const std::vector<const TransportPicture*>& pictures);

  /// How many levels the picture's largest mass is below that of all pictures.
  int shift_of(const TransportPicture& picture) const;
  const Palette& palette() const { return palette_; }
  /// Masses at equal distances of their logarithms, from the first colour's to the last one's.
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  double largest_ = 0.0;
  std::vector<double> ticks_;
  Palette palette_{};
};

/// Pixels of the image below each other.
int64_t image_rows(const TransportPicture& picture);

/// A PNG file with a pixel for each cell, and an empty line between the rows of the support and the
/// others.
std::string png_of(const TransportPicture& picture, const ColourScale& scale);

/// A PNG file of one line: all colours, from the first tick to the last.
std::string png_of_scale();

}  // namespace dotresize
