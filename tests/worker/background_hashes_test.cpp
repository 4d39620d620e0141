#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/text/sha256.h"
#include "tests/temporary_directory.h"
#include "worker/commands/run/output/file_hashes.h"

namespace dotresize {
namespace {

TEST(BackgroundHashes, AreThoseOfTheFiles) {
  const TemporaryDirectory dir;
  put_file(dir / "a", "first");
  put_file(dir / "b", "second");
  SelfCommunicator self;
  BackgroundHashes hashes(self, {dir / "a", dir / "b"});
  const BackgroundHashes::Hashes expected = {{"a", sha256_of_file(dir / "a")},
                                             {"b", sha256_of_file(dir / "b")}};
  EXPECT_EQ(hashes.gather(self), expected);
}

TEST(BackgroundHashes, AMissingFileIsAnErrorForTheOneWhoAsks) {
  const TemporaryDirectory dir;
  SelfCommunicator self;
  BackgroundHashes hashes(self, {dir / "none"});
  EXPECT_THROW(hashes.gather(self), InputError);
}

}  // namespace
}  // namespace dotresize
