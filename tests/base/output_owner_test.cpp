#include "base/files/output_owner.h"

#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/files/partial_path.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

const OutputRights kBen = {{"j-1", 1, "ben"}, /*any=*/false};

class ForeignPlaceTest : public ::testing::Test {
 protected:
  /// Marks a directory, which it makes, as this owner's.
  static void mark(const fs::path& dir, const std::string& owner) {
    fs::create_directories(dir);
    write_output_owner(dir, {"j-0", 1, owner});
  }
  bool is_foreign(const fs::path& path) const { return foreign_place(path, kBen).has_value(); }

  TemporaryDirectory home_;
};

TEST_F(ForeignPlaceTest, IsADirectoryWhoseMarkIsMissingOrAnothers) {
  const fs::path out = home_ / "out";
  EXPECT_FALSE(is_foreign(out)) << "nothing is there";
  fs::create_directories(out);
  EXPECT_FALSE(is_foreign(out)) << "nothing is in it";
  put_file(out / "file", "");
  EXPECT_TRUE(is_foreign(out));
  mark(out, "ann");
  EXPECT_EQ(foreign_place(out, kBen)->owner, "ann");
  EXPECT_FALSE(foreign_place(out, {}));
  mark(out, "ben");
  EXPECT_FALSE(is_foreign(out));
  put_file(out / kOwnerOfOutput, "{\"job_id\": \"j-1\"");
  EXPECT_TRUE(is_foreign(out)) << "its mark is damaged";
  fs::remove(out / kOwnerOfOutput);
  fs::create_symlink(home_ / "mine.json", out / kOwnerOfOutput);
  put_file(home_ / "mine.json", "{\"job_id\": \"j-1\", \"attempt\": 1, \"owner\": \"ben\"}");
  EXPECT_TRUE(is_foreign(out)) << "its mark is elsewhere";
}

TEST_F(ForeignPlaceTest, IsWhatLiesInOne) {
  mark(home_ / "sweep", "ann");
  EXPECT_EQ(foreign_place(home_ / "sweep/variants/a/model", kBen)->directory, home_ / "sweep");
  mark(home_ / "model" / kReportDirectory, "ann");
  put_file(home_ / "model" / kReportDirectory / kReportFile, "{}");
  EXPECT_TRUE(is_foreign(home_ / "model/deep/er"));
  mark(home_ / "next.partial" / kJournalDirectory, "ann");
  EXPECT_TRUE(is_foreign(home_ / "next.partial"));
}

/// A directory that a job names after a part of an output claims nothing but itself.
TEST_F(ForeignPlaceTest, IsNotWhatLiesAroundOne) {
  mark(home_ / "common" / kReportDirectory, "ann");
  mark(home_ / "common" / kJournalDirectory, "ann");
  EXPECT_FALSE(is_foreign(home_ / "common/of-ben"));
  EXPECT_TRUE(is_foreign(home_ / "common" / kReportDirectory));
}

TEST(OutputRights, ComeWithTheEnvironmentOfAnAttempt) {
  const OutputRights same = parse_rights(rights_text(kBen));
  EXPECT_EQ(same.owner.job_id, "j-1");
  EXPECT_EQ(same.owner.name, "ben");
  EXPECT_FALSE(same.any);
  EXPECT_TRUE(rights_from_environment().any) << "without a server";
  for (const char* text : {"", "{}", "[]", "{\"job_id\": \"j\", \"attempt\": 1, \"any\": 1}"}) {
    EXPECT_THROW(parse_rights(text), InputError) << text;
  }
}

}  // namespace
}  // namespace dotresize
