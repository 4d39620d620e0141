#include "job/page/figures/plan_image.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dotresize {
namespace {

constexpr int kHighest = 255;
constexpr int kTicks = 5;

/// Ten equidistant colours of matplotlib's viridis (CC0).
constexpr std::array<std::array<uint8_t, 3>, 10> kViridis = {{{0x44, 0x01, 0x54},
                                                              {0x48, 0x28, 0x78},
                                                              {0x3e, 0x49, 0x89},
                                                              {0x31, 0x68, 0x8e},
                                                              {0x26, 0x82, 0x8e},
                                                              {0x1f, 0x9e, 0x89},
                                                              {0x35, 0xb7, 0x79},
                                                              {0x6e, 0xce, 0x58},
                                                              {0xb5, 0xde, 0x2b},
                                                              {0xfd, 0xe7, 0x25}}};

/// `at` is in [0, 1].
std::array<uint8_t, 4> viridis(double at) {
  const double place = std::clamp(at, 0.0, 1.0) * (kViridis.size() - 1);
  const size_t below = std::min(static_cast<size_t>(place), kViridis.size() - 2);
  const double share = place - static_cast<double>(below);
  std::array<uint8_t, 4> colour = {0, 0, 0, 255};
  for (size_t i = 0; i < 3; ++i) {
    const double value = kViridis[below][i] * (1.0 - share) + kViridis[below + 1][i] * share;
    colour[i] = static_cast<uint8_t>(std::lround(value));
  }
  return colour;
}

std::string png(uint32_t width, uint32_t height, const std::vector<uint8_t>& pixels,
                const Palette& palette) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = PNG_FORMAT_RGBA_COLORMAP;
  image.colormap_entries = static_cast<png_uint_32>(palette.size());
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(size, '\0');
  const int row_stride = 0;  // no padding between rows
  if (png_image_write_to_memory(&image, file.data(), &size, /*convert_to_8_bit=*/0, pixels.data(),
                                row_stride, palette.data()) == 0) {
    throw std::runtime_error(std::string("libpng: ") + image.message);
  }
  file.resize(size);
  return file;
}

}  // namespace

ColourScale::ColourScale(const std::vector<const TransportPicture*>& pictures) {
  for (const TransportPicture* picture : pictures) largest_ = std::max(largest_, picture->largest);
  int lowest = kHighest;
  for (const TransportPicture* picture : pictures) {
    const int shift = shift_of(*picture);
    for (const uint8_t level : picture->levels) {
      if (level > shift) lowest = std::min(lowest, level - shift);
    }
  }
  lowest = std::min(lowest, kHighest - 1);
  for (int i = 0; i < kTicks; ++i) {
    const double levels = (kHighest - lowest) * (1.0 - i / (kTicks - 1.0));
    ticks_.push_back(largest_ * std::pow(10.0, -levels / kLevelsPerDecade));
  }
  for (int colour = 1; colour <= kHighest; ++colour) {
    palette_[static_cast<size_t>(colour)] =
        viridis(static_cast<double>(colour - lowest) / (kHighest - lowest));
  }
}

int ColourScale::shift_of(const TransportPicture& picture) const {
  const double decades = std::log10(largest_ / picture.largest);
  return static_cast<int>(std::lround(std::min(kLevelsPerDecade * decades, 1.0 * kHighest)));
}

int64_t image_rows(const TransportPicture& picture) {
  return picture.rows + (picture.rows > picture.columns ? 1 : 0);
}

std::string png_of(const TransportPicture& picture, const ColourScale& scale) {
  const int shift = scale.shift_of(picture);
  std::vector<uint8_t> pixels;
  pixels.reserve(picture.levels.size());
  for (const uint8_t level : picture.levels) {
    pixels.push_back(static_cast<uint8_t>(std::max(0, level - shift)));
  }
  if (image_rows(picture) > picture.rows) {
    const auto columns = static_cast<ptrdiff_t>(picture.columns);
    pixels.insert(pixels.begin() + columns * columns, static_cast<size_t>(columns), uint8_t{0});
  }
  return png(static_cast<uint32_t>(picture.columns), static_cast<uint32_t>(image_rows(picture)),
             pixels, scale.palette());
}

std::string png_of_scale() {
  Palette palette;
  std::vector<uint8_t> pixels;
  for (size_t i = 0; i < palette.size(); ++i) {
    palette[i] = viridis(static_cast<double>(i) / static_cast<double>(palette.size() - 1));
    pixels.push_back(static_cast<uint8_t>(i));
  }
  return png(static_cast<uint32_t>(palette.size()), 1, pixels, palette);
}

}  // namespace dotresize
