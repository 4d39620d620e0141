#include "server/admission/known_models.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "base/errors.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

class KnownModelsTest : public ::testing::Test {
 protected:
  static constexpr std::chrono::hours kLater{1};

  KnownModelsTest() {
    write("config.json", "{}");
    write("model.safetensors", "old");
  }
  /// Each write gets a time of its own: they may follow within a tick of the file system's clock.
  void write(const fs::path& name, const std::string& text) {
    put_file(dir_ / name, text);
    fs::last_write_time(dir_ / name, written_ += std::chrono::seconds(1));
  }
  /// Vocabulary that is returned, which counts the reads.
  int64_t reads(KnownModels::Wall::time_point now = KnownModels::Wall::now() + kLater) {
    return models_.config_of(dir_.path(), Confinement(), now).vocab_size;
  }

  TemporaryDirectory dir_;
  fs::file_time_type written_ = fs::file_time_type::clock::now() - kLater;
  SourceModel read_;
  KnownModels models_{[this](const fs::path&, const Confinement&) {
    ++read_.config.vocab_size;
    return read_;
  }};
};

TEST_F(KnownModelsTest, AModelIsReadOnce) {
  EXPECT_EQ(reads(), 1);
  EXPECT_EQ(reads(), 1);
}

TEST_F(KnownModelsTest, EveryChangeOfTheDirectoryHasItReadAgain) {
  EXPECT_EQ(reads(), 1);
  write("model.safetensors", "new");  // has the same size
  EXPECT_EQ(reads(), 2);
  write("another.json", "{}");
  EXPECT_EQ(reads(), 3);
  fs::remove(dir_ / "another.json");
  EXPECT_EQ(reads(), 4);
  fs::rename(dir_ / "model.safetensors", dir_ / "other.safetensors");
  EXPECT_EQ(reads(), 5);
  EXPECT_EQ(reads(), 5);
}

TEST_F(KnownModelsTest, AChangeBehindALinkIsSeen) {
  const TemporaryDirectory elsewhere;
  write(elsewhere / "weights", "old");
  fs::create_symlink(elsewhere / "weights", dir_ / "linked.safetensors");
  EXPECT_EQ(reads(), 1);
  write(elsewhere / "weights", "new");
  EXPECT_EQ(reads(), 2);
}

TEST_F(KnownModelsTest, AModelThatHasJustChangedIsReadAgain) {
  const auto now = KnownModels::Wall::now();
  EXPECT_EQ(reads(now), 1);
  EXPECT_EQ(reads(now), 2);
}

TEST_F(KnownModelsTest, AModelWithWeightsInFoldersIsReadAgain) {
  read_.files.names = {"folder/model.safetensors"};
  EXPECT_EQ(reads(), 1);
  EXPECT_EQ(reads(), 2);
}

TEST_F(KnownModelsTest, ModelsThatAreChangedWhileTheyAreReadAndFaultyOnesAreNotKept) {
  bool refuses = false;
  int count = 0;
  KnownModels models([&](const fs::path&, const Confinement&) -> SourceModel {
    ++count;
    if (refuses) throw InputError("faulty");
    write("new" + std::to_string(count), "");
    return {};
  });
  const auto later = KnownModels::Wall::now() + kLater;
  models.config_of(dir_.path(), Confinement(), later);
  models.config_of(dir_.path(), Confinement(), later);
  EXPECT_EQ(count, 2);
  refuses = true;
  EXPECT_THROW(models.config_of(dir_.path(), Confinement(), later), InputError);
  EXPECT_THROW(models.config_of(dir_.path(), Confinement(), later), InputError);
  EXPECT_EQ(count, 4);
}

}  // namespace
}  // namespace dotresize
