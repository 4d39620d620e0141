#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "worker/python/python_helper.h"

namespace dotresize {
namespace {

std::string source_file(const std::string& name) {
  std::ifstream file(std::string(DOTRESIZE_SOURCE_DIR) + "/worker/python/" + name,
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(EmbeddedFiles, AreTheSourcesByteForByte) {
  EXPECT_EQ(configuration_py(), source_file("configuration_dotresize.py"));
  EXPECT_EQ(modeling_py(), source_file("modeling_dotresize.py"));
  EXPECT_EQ(modeling_layer_sizes_py(), source_file("modeling_layer_sizes.py"));
  EXPECT_EQ(run_in_transformers_py(), source_file("run_in_transformers.py"));
  EXPECT_EQ(text_files_py(), source_file("text_files.py"));
  EXPECT_EQ(tokenize_text_py(), source_file("tokenize_text.py"));
  EXPECT_FALSE(modeling_py().empty());
}

}  // namespace
}  // namespace dotresize
