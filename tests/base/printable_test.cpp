#include "base/text/printable.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace dotresize {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Printable, KeepsTextAndReplacesWhatIsNone) {
  EXPECT_EQ(printable("größe ✓ 𝛼", 100), "größe ✓ 𝛼");
  EXPECT_EQ(printable("a\nb\tc\x01"
                      "d\x7f",
                      100),
            "a b c?d?");
  EXPECT_EQ(printable("\xc0\xaf|\xed\xa0\x80|\xf5|\xe2\x82", 100), "??|???|?|??");
  EXPECT_EQ(printable(std::string_view("a\0b", 3), 100), "a?b");
}

TEST(Printable, CutsBetweenCharacters) {
  EXPECT_EQ(printable("aä", 2), "a");
  EXPECT_EQ(printable("aä", 3), "aä");
}

TEST(PrintableLines, KeepsLineFeedsAlone) {
  EXPECT_EQ(printable_lines("a\x1b[31mb\x7f\r"), "a?[31mb??");
  EXPECT_EQ(printable_lines("zwei\nZeilen ü"), "zwei\nZeilen ü");
  EXPECT_EQ(printable_lines("\xff|\t"), "?|\t");
}

TEST(InQuotes, ShowsControlCharactersByNumber) {
  EXPECT_EQ(in_quotes("a\nb\x1b\x7f"), R"('a\x0ab\x1b\x7f')");
  EXPECT_EQ(in_quotes("größe"), "'größe'");
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes("a\xff"), R"('a\xff')");
}

TEST(InQuotes, CutsAfterAHundredBytesAtACharactersBoundary) {
  const std::string whole(100, 'x');
  EXPECT_EQ(in_quotes(whole), fmt::format("'{}'", whole));
  EXPECT_EQ(in_quotes(whole + "x"), fmt::format("'{}...'", whole));
  EXPECT_EQ(in_quotes(repeated("€", 50)), fmt::format("'{}...'", repeated("€", 33)));
  EXPECT_EQ(in_quotes(std::string(96, 'x') + "😀"), fmt::format("'{}😀'", std::string(96, 'x')));
}

TEST(InQuotes, CutsWhatHasNoCharactersToo) {
  EXPECT_LT(in_quotes(std::string(1000, '\x80')).size(), 110u);
}

TEST(Printable, ReplacesWhatSteersATerminalOrTurnsTheTextAround) {
  for (const char* hidden :
       {"\u009b", "\u0085", "\u202e", "\u2066", "\u200f", "\u061c", "\u2028"}) {
    EXPECT_EQ(printable("a" + std::string(hidden) + "b"), "a?b");
    EXPECT_EQ(printable_lines("a" + std::string(hidden) + "b"), "a?b");
    EXPECT_FALSE(is_printable(hidden));
  }
  EXPECT_EQ(in_quotes("\u202e"), "'\\xe2\\x80\\xae'");
  EXPECT_TRUE(is_printable("caf\u00e9 \u05d0 \U0001F600"));
}

TEST(WholeLines, LeaveOutTheOneThatMayBeCut) {
  EXPECT_EQ(whole_lines("cut\nwhole\n", 10), "whole\n");
  EXPECT_EQ(whole_lines("first\nwhole\n", 100), "first\nwhole\n");
  EXPECT_EQ(whole_lines("one long", 8), "one long");
}

TEST(Printable, CharacterThatIsNotCompleteIsCounted) {
  const std::string smile = "\U0001F600";
  for (size_t bytes = 1; bytes < smile.size(); ++bytes) {
    EXPECT_EQ(begun_character("a" + smile.substr(0, bytes)), bytes);
  }
  EXPECT_EQ(begun_character("a" + smile), 0u);
  EXPECT_EQ(begun_character("\x80\x80\x80\x80"), 0u) << "nothing completes it";
  EXPECT_EQ(begun_character(""), 0u);
}

}  // namespace
}  // namespace dotresize
