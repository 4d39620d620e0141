#include <gtest/gtest.h>

#include "base/text/encodings.h"

namespace dotresize {
namespace {

// Test vectors of RFC 4648, section 10.
TEST(Base64, IsThatOfTheStandard) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
}

TEST(Base64, IsReadBack) {
  for (const std::string bytes : {"", "f", "fo", "foo", "\xff\x01\xfe"}) {
    EXPECT_EQ(from_base64(base64(bytes), bytes.size()), bytes);
  }
}

TEST(Base64, OfNothingElseIsRead) {
  EXPECT_EQ(from_base64("Zm8=", 1), std::nullopt);  // wrong size
  EXPECT_EQ(from_base64("Zm8=", 3), std::nullopt);
  EXPECT_EQ(from_base64("Zm8=", size_t{1} << 60), std::nullopt);
  for (const char* text : {"Zm8", "Zm8==", "Zm9=", "Zm!=", " Zm8", "Zm8\n", "Z=8=", "===="}) {
    EXPECT_EQ(from_base64(text, 2), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace dotresize
