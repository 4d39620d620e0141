// Texts from outside: printable forms and page tokens.
#include <gtest/gtest.h>

#include "base/printable.h"
#include "server/api_error.h"
#include "server/page_token.h"

namespace dotresize {
namespace {

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

TEST(PageToken, GivesBackThePositionForTheSameFilterAlone) {
  v1::ListJobsRequest::Filter filter;
  filter.set_name("a");
  const std::string token = make_page_token(1234567, filter);
  EXPECT_EQ(read_page_token(token, filter), 1234567);
  EXPECT_EQ(read_page_token("", filter), 0);
  EXPECT_THROW(read_page_token(token, {}), ApiError);
  for (const char* bad : {"x", ".", "1", "-1.0", "ffffffffffffffffff.0", "1.2.3"}) {
    EXPECT_THROW(read_page_token(bad, filter), ApiError) << bad;
  }
}

}  // namespace
}  // namespace dotresize
