#include "base/in_quotes.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace dotresize {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(InQuotes, ShowsControlCharactersByNumber) {
  EXPECT_EQ(in_quotes("a\nb\x1b\x7f"), R"('a\x0ab\x1b\x7f')");
  EXPECT_EQ(in_quotes("größe"), "'größe'");
  EXPECT_EQ(in_quotes(""), "''");
}

TEST(InQuotes, CutsAfterAHundredBytesAtACharactersBoundary) {
  const std::string whole(100, 'x');
  EXPECT_EQ(in_quotes(whole), fmt::format("'{}'", whole));
  EXPECT_EQ(in_quotes(whole + "x"), fmt::format("'{}...'", whole));
  EXPECT_EQ(in_quotes(repeated("€", 50)), fmt::format("'{}...'", repeated("€", 33)));
}

TEST(InQuotes, CutsWhatHasNoCharactersToo) {
  EXPECT_LT(in_quotes(std::string(1000, '\x80')).size(), 110u);
}

}  // namespace
}  // namespace dotresize
