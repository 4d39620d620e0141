#include "base/files/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

using testing::EndsWith;
using testing::ThrowsMessage;

auto refused(const std::string& what) { return ThrowsMessage<InputError>(EndsWith(what)); }

TEST(ReadWholeFile, GivesTheBytes) {
  const TemporaryDirectory dir;
  const std::string bytes("a\0\n\xff", 4);
  EXPECT_EQ(read_whole_file(dir.write("file", bytes), 4), bytes);
  EXPECT_EQ(read_whole_file(dir.write("empty", ""), 0), "");
}

TEST(ReadWholeFile, SaysWhyItCannot) {
  const TemporaryDirectory dir;
  const auto file = dir.write("file", "12345");
  const auto read = [](const std::filesystem::path& path) { read_whole_file(path, 4); };
  EXPECT_THAT([&] { read(dir / "none"); }, refused("none: no such file"));
  EXPECT_THAT([&] { read(file / "below"); }, refused("below: no such file"));
  EXPECT_THAT([&] { read(dir.path()); }, refused("is not a regular file"));
  EXPECT_THAT([&] { read("/dev/zero"); }, refused("/dev/zero: is not a regular file"));
  EXPECT_THAT([&] { read(file); }, refused("is larger than 4 bytes, the largest accepted size"));
}

TEST(InputFile, EndsWhereItWasCut) {
  const TemporaryDirectory dir;
  const InputFile file(dir.write("file", "12345").string());
  char bytes[8];
  EXPECT_THAT([&] { file.read(bytes, 6, 2); },
              refused("the file ends at byte 5, 3 bytes too early"));
}

}  // namespace
}  // namespace dotresize
