#include <gtest/gtest.h>

#include <limits>

#include "base/text/human_text.h"

namespace dotresize {
namespace {

TEST(Format, RatesKeepThreeDigitsAndRollOverAtAThousand) {
  EXPECT_EQ(format_rate(0.6), "1");
  EXPECT_EQ(format_rate(850), "850");
  EXPECT_EQ(format_rate(12'345), "12.3k");
  EXPECT_EQ(format_rate(999'600), "1.00M");
  EXPECT_EQ(format_rate(4'560'000), "4.56M");
}

TEST(Format, ClockCountsHoursOnlyWhenThereAreAny) {
  EXPECT_EQ(format_clock(0.4), "0:00");
  EXPECT_EQ(format_clock(42), "0:42");
  EXPECT_EQ(format_clock(725), "12:05");
  EXPECT_EQ(format_clock(3723), "1:02:03");
}

TEST(Format, DurationNamesItsTwoLargestUnits) {
  EXPECT_EQ(format_duration(42.4), "42 s");
  EXPECT_EQ(format_duration(725), "12 min 5 s");
  EXPECT_EQ(format_duration(3 * 3600 + 2 * 60 + 59), "3 h 2 min");
  EXPECT_EQ(format_duration(4 * 86400 + 3 * 3600), "4 d 3 h");
  EXPECT_EQ(format_duration(-5), "0 s");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::quiet_NaN()), "0 s");
}

TEST(Format, ChangeHasASignAndNeedsSomethingToCompareWith) {
  EXPECT_EQ(format_change(100, 105.44), "+5.4 %");
  EXPECT_EQ(format_change(100, 79.7), "-20.3 %");
  EXPECT_EQ(format_change(0, 5), "");
}

TEST(Format, TableColumnsLineUpBeyondAscii) {
  EXPECT_EQ(format_table({{"a", "1"}, {"über", "200"}}, {Align::kLeft, Align::kRight}),
            "a       1\n"
            "über  200\n");
}

TEST(Format, TableLinesHaveNoTrailingSpace) {
  EXPECT_EQ(format_table({{"key", "value"}, {"k", ""}}, {Align::kLeft, Align::kLeft}),
            "key  value\nk\n");
}

}  // namespace
}  // namespace dotresize
