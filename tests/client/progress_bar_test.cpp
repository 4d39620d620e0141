#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/text/human_text.h"
#include "client/display/progress_display.h"

namespace dotresize {
namespace {

v1::Progress halfway() {
  v1::Progress progress;
  progress.set_phase("calibrate");
  progress.set_fraction(0.5);
  progress.set_junctions_done(7);
  progress.set_junctions_total(13);
  progress.set_tokens_per_second(12345.0);
  progress.set_eta_s(42.0);
  return progress;
}

/// Returns `line` without the sequences that set a colour (from ESC to 'm').
std::string without_escapes(std::string line) {
  for (size_t at = line.find('\x1b'); at != std::string::npos; at = line.find('\x1b')) {
    line.erase(at, line.find('m', at) - at + 1);
  }
  return line;
}

TEST(ProgressBar, ShowsPhaseShareJunctionsRateAndEta) {
  EXPECT_EQ(render_bar(halfway(), {.columns = 120}),
            "calibrate            ####################--------------------   50 %"
            "  junctions 7/13   12.3k tok/s  ETA 0:42");
}

TEST(ProgressBar, NeverReachesTheLastColumn) {
  for (const bool fancy : {false, true}) {
    for (int columns = 1; columns <= 200; ++columns) {
      const BarStyle style{.columns = columns, .unicode = fancy, .colour = fancy};
      EXPECT_LT(display_width(without_escapes(render_bar(halfway(), style))), columns);
    }
  }
}

TEST(ProgressBar, LeavesOutRateThenJunctionsThenEtaThenTheBar) {
  const auto at = [](int columns) { return render_bar(halfway(), {.columns = columns}); };
  EXPECT_NE(at(80).find("tok/s"), std::string::npos);
  EXPECT_NE(at(70).find("junctions"), std::string::npos);
  EXPECT_EQ(at(70).find("tok/s"), std::string::npos);
  EXPECT_EQ(at(55).find("junctions"), std::string::npos);
  EXPECT_NE(at(55).find("ETA 0:42"), std::string::npos);
  EXPECT_EQ(at(42).find("ETA"), std::string::npos);
  EXPECT_NE(at(42).find("#"), std::string::npos);
  EXPECT_EQ(at(20), "50 % calibrate");
}

TEST(ProgressBar, KeepsItsLengthFromLineToLine) {
  const auto bar_length = [](const v1::Progress& progress) {
    const std::string line = render_bar(progress, {.columns = 100});
    return std::count_if(line.begin(), line.end(), [](char c) { return c == '#' || c == '-'; });
  };
  v1::Progress later = halfway();
  later.set_phase("evaluate_compressed");
  later.set_fraction(1.0);
  later.set_junctions_done(13);
  later.clear_tokens_per_second();
  later.set_eta_s(725);
  EXPECT_EQ(bar_length(later), bar_length(halfway()));
}

TEST(ProgressBar, ColourIsOnlyUsedWhenAskedFor) {
  EXPECT_EQ(render_bar(halfway(), {.columns = 90, .unicode = true}).find('\x1b'),
            std::string::npos);
  EXPECT_NE(render_bar(halfway(), {.columns = 90, .unicode = true, .colour = true}).find('\x1b'),
            std::string::npos);
}

TEST(ProgressBar, WithoutUnicodeEveryByteIsAscii) {
  for (const char c : render_bar(halfway(), {.columns = 90})) {
    EXPECT_LT(static_cast<unsigned char>(c), 0x80);
  }
}

TEST(ProgressBar, OnlyACompletedJobIsAtHundredPercent) {
  v1::Progress progress = halfway();
  progress.set_fraction(0.9999);
  EXPECT_EQ(render_share(progress), "99 %");
  progress.set_fraction(1.0);
  EXPECT_EQ(render_share(progress), "100 %");
}

TEST(ProgressBar, SurvivesNumbersThatMakeNoSense) {
  v1::Progress progress = halfway();
  progress.set_eta_s(std::numeric_limits<double>::infinity());
  progress.set_tokens_per_second(std::numeric_limits<double>::infinity());
  for (const double fraction : {std::numeric_limits<double>::quiet_NaN(), -3.0, 1e300}) {
    progress.set_fraction(fraction);
    EXPECT_LT(display_width(render_bar(progress, {.columns = 80})), 80);
  }
}

TEST(ProgressBar, PhaseCannotSteerTheTerminal) {
  v1::Progress progress = halfway();
  progress.set_phase("\x1b[2Jsolve");
  EXPECT_EQ(render_bar(progress, {.columns = 80}).find('\x1b'), std::string::npos);
}

TEST(PlainProgress, IsOneReadableLine) {
  EXPECT_EQ(render_plain(halfway()), "calibrate 50 %, junctions 7/13, 12.3k tok/s, ETA 0:42");
}

TEST(PlainProgress, LeavesOutWhatIsNotKnown) {
  v1::Progress progress;
  progress.set_phase("evaluate_dense");
  progress.set_eta_s(-1.0);
  EXPECT_EQ(render_plain(progress), "evaluate_dense 0 %");
}

}  // namespace
}  // namespace dotresize
