#include "base/files/partial_path.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

TEST(PartialPath, IsBesideTheOutput) {
  EXPECT_EQ(partial_path("/a/out"), "/a/out.partial");
  EXPECT_EQ(partial_path("/a/out/"), "/a/out.partial");
  EXPECT_EQ(replaced_path("/a/out.v1"), "/a/out.v1.replaced");
}

TEST(PartialPath, IsTheNameOfNoOutput) {
  EXPECT_TRUE(is_unfinished_output(partial_path("/a/out")));
  EXPECT_TRUE(is_unfinished_output(replaced_path("/a/out")));
  EXPECT_FALSE(is_unfinished_output("/a.partial/out"));
  EXPECT_FALSE(is_unfinished_output("/a/partial"));
}

/// Returns true if trim_unfinished() keeps an unfinished output whose journal has these files.
bool is_kept(const std::vector<std::string>& journal) {
  const TemporaryDirectory home;
  const std::filesystem::path partial = home / "out.partial";
  std::filesystem::create_directories(partial / kJournalDirectory);
  for (const std::string& name : journal) put_file(partial / kJournalDirectory / name, "{}");
  put_file(partial / "model.safetensors", "unfinished");
  const PinnedDirectory parent(std::filesystem::canonical(home.path()));
  EXPECT_FALSE(trim_unfinished(parent, "out.partial", parent.enter("out.partial")));
  EXPECT_FALSE(std::filesystem::exists(partial / "model.safetensors"));
  return std::filesystem::exists(partial);
}

TEST(TrimUnfinished, KeepsEntriesWithAFileThatSaysWhoseTheyAre) {
  EXPECT_TRUE(is_kept({kJournalOfJob, "owner.json", "map-0.json"}));
  EXPECT_TRUE(is_kept({"owner.json", "map-0.json"}));
  EXPECT_TRUE(is_kept({kJournalOfJob, "map-0.json"}));
  EXPECT_FALSE(is_kept({kJournalOfJob, "owner.json"}));
  EXPECT_FALSE(is_kept({}));
}

/// A rank writes its entry while another one removes the journal.
TEST(TrimUnfinished, RemovesEntriesThatNobodyOwns) { EXPECT_FALSE(is_kept({"map-0.json"})); }

}  // namespace
}  // namespace dotresize
