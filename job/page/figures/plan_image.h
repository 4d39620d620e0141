#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "job/report/transport_picture.h"

namespace dotresize {

/// Red, green, blue and opacity of each colour, by its number. Colour 0 is transparent.
using Palette = std::array<std::array<uint8_t, 4>, 256>;

/// Colour scale of all pictures of a page: viridis over the logarithm of the mass, so that a colour
/// means the same mass in every picture. The number of a colour is a level of TransportPicture
/// minus the picture's shift.
class ColourScale {
 public:
  explicit ColourScale(const std::vector<const TransportPicture*>& pictures);

  /// Number of levels by which the picture's largest mass is below the largest of all pictures.
  int shift_of(const TransportPicture& picture) const;
  const Palette& palette() const { return palette_; }
  /// Masses at equal logarithmic distances, from the first colour's to the last one's.
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  double largest_ = 0.0;
  std::vector<double> ticks_;
  Palette palette_{};
};

/// Height of the image in pixels.
int64_t image_rows(const TransportPicture& picture);

/// PNG file with one pixel per cell, and an empty line between the rows of the support and the
/// other rows.
std::string png_of(const TransportPicture& picture, const ColourScale& scale);

/// PNG file of one line with all colours, from the first tick to the last.
std::string png_of_scale();

}  // namespace dotresize
