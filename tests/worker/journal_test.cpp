#include "worker/calibration/storage/journal.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void flip_last_bit(const std::filesystem::path& file) {
  std::string bytes = file_bytes(file);
  bytes.back() ^= 1;
  put_file(file, bytes);
}

/// The entry changes after the check of all entries at the beginning of a run.
TEST(Journal, AnEntryThatIsChangedLaterIsNotUsed) {
  const TemporaryDirectory dir;
  Journal journal(dir.path());
  journal.put("map-0", {{"M", at::ones({4, 2})}});
  EXPECT_TRUE(journal.damaged(0, 1).empty());
  EXPECT_TRUE(journal.get("map-0").at("M").equal(at::ones({4, 2})));
  flip_last_bit(dir / "map-0.safetensors");
  const auto refuses =
      ThrowsMessage<std::runtime_error>(HasSubstr("was changed while the job ran"));
  EXPECT_THAT([&] { journal.get("map-0"); }, refuses);
  EXPECT_THAT([&] { journal.tensors_file("map-0"); }, refuses);
}

TEST(Journal, AValueThatIsChangedLaterIsNotUsed) {
  const TemporaryDirectory dir;
  Journal journal(dir.path());
  journal.put_value("trial", 0.25);
  EXPECT_EQ(journal.value("trial"), 0.25);
  std::string text = file_bytes(dir / "trial.json");
  text.replace(text.find("0.25"), 4, "0.75");
  put_file(dir / "trial.json", text);
  EXPECT_THAT([&] { journal.value("trial"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("was changed while the job ran")));
}

}  // namespace
}  // namespace dotresize
