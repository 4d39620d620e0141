#include "job/page/figures/plan_image.h"

#include <gmock/gmock.h>
#include <png.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "job/page/figures/plan_gallery.h"
#include "tests/job/page/page_examples.h"

namespace dotresize {
namespace {

/// Returns red, green, blue and opacity of each pixel, row by row.
std::vector<std::array<uint8_t, 4>> pixels_of(const std::string& file) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0) return {};
  image.format = PNG_FORMAT_RGBA;
  std::vector<std::array<uint8_t, 4>> pixels(size_t{image.width} * image.height);
  png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr);
  return pixels;
}

TEST(PlanImage, HasAPixelForEachCell) {
  const TransportPicture picture = *example_junction("embed", 200, 227).transport;
  TransportPicture fainter = picture;
  fainter.largest = 0.025;
  const ColourScale scale({&picture, &fainter});
  EXPECT_EQ(scale.shift_of(picture), 0);
  EXPECT_EQ(scale.shift_of(fainter), 32);
  ASSERT_EQ(scale.ticks().size(), 5u);
  EXPECT_NEAR(scale.ticks().front(), 0.25e-3, 1e-15);
  EXPECT_NEAR(scale.ticks()[2], 0.25 * std::pow(10.0, -1.5), 1e-15);
  EXPECT_EQ(scale.ticks().back(), 0.25);
  const auto pixels = pixels_of(png_of(picture, scale));
  ASSERT_EQ(pixels.size(), 2u * 4u);
  EXPECT_EQ(image_rows(picture), 4);
  EXPECT_EQ(pixels[0], pixels[3]);
  EXPECT_EQ(pixels[1], pixels[6]);
  EXPECT_NE(pixels[0], pixels[1]);
  EXPECT_EQ(pixels[0][3], 255);
  for (const size_t without : {2, 4, 5}) EXPECT_EQ(pixels[without][3], 0);  // no mass, the gap
  // Equal masses have equal colours.
  EXPECT_EQ(pixels_of(png_of(fainter, scale))[0], pixels[1]);
  EXPECT_EQ(pixels_of(png_of(fainter, scale))[1], pixels[7]);
}

TEST(PlanImage, OfAPlanWithoutMergedChannelsHasNoGap) {
  TransportPicture picture = *example_junction("embed", 200, 227).transport;
  picture.rows = 2;
  picture.levels.resize(4);
  EXPECT_EQ(pixels_of(png_of(picture, ColourScale({&picture}))).size(), 4u);
}

TEST(PlanImage, IsMadeOfWhateverAReportMayHave) {
  TransportPicture picture = *example_junction("embed", 200, 227).transport;
  for (const uint8_t level : {0, 1, 255}) {
    picture.levels.assign(6, level);
    for (const double largest : {2.0, 0.25, 5e-324}) {
      picture.largest = largest;
      EXPECT_EQ(pixels_of(png_of(picture, ColourScale({&picture}))).size(), 8u);
    }
  }
  EXPECT_EQ(scientific(2.54e-10), "2.5·10⁻¹⁰");
  EXPECT_EQ(scientific(9.99e-2), "1.0·10⁻¹");
  EXPECT_EQ(scientific(0.0), "0.0·10⁰");
}

}  // namespace
}  // namespace dotresize
