#include "base/text/sha256.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <stop_token>

#include "base/errors.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

constexpr char kOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256OfBytes, IsThatOfTheStandard) { EXPECT_EQ(sha256_of_bytes("abc", 3), kOfAbc); }

TEST(Sha256OfFile, IsThatOfTheStandard) {
  const TemporaryDirectory dir;
  put_file(dir / "abc", "abc");
  EXPECT_EQ(sha256_of_file(dir / "abc"), kOfAbc);
  put_file(dir / "empty", "");
  EXPECT_EQ(sha256_of_file(dir / "empty"),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  put_file(dir / "million", std::string(10'000'000, 'a'));
  const std::string whole = sha256_of_file(dir / "million");
  put_file(dir / "million", std::string(9'999'999, 'a') + "b");
  EXPECT_NE(sha256_of_file(dir / "million"), whole);
  EXPECT_THROW(sha256_of_file(dir / "none"), InputError);
}

TEST(Sha256OfFile, IsGivenUpIfStopIsRequested) {
  const TemporaryDirectory dir;
  put_file(dir / "abc", "abc");
  std::stop_source source;
  EXPECT_EQ(sha256_of_file(dir / "abc", source.get_token()), kOfAbc);
  source.request_stop();
  EXPECT_THROW(sha256_of_file(dir / "abc", source.get_token()), std::runtime_error);
}

}  // namespace
}  // namespace dotresize
