#include "job/plan/text_files.h"

#include <algorithm>
#include <cctype>
#include <system_error>

#include "base/text/printable.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

constexpr char kParquet[] = ".parquet";

std::string ending_of(const fs::path& file) {
  std::string ending = file.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending;
}

}  // namespace

bool is_table(const fs::path& text) {
  const std::string ending = ending_of(text);
  return ending == ".jsonl" || ending == ".json" || ending == kParquet;
}

int64_t estimated_text_bytes(const fs::path& text, int64_t bytes) {
  constexpr int64_t kUsualCompression = 3;
  // A chat template adds about as many bytes as the names and quotes of JSON take.
  return ending_of(text) == kParquet ? kUsualCompression * bytes : bytes;
}

std::string tokenizer_fault(const fs::path& model_dir) {
  const auto has = [&](const char* name) {
    std::error_code error;
    return fs::exists(model_dir / name, error);
  };
  if (has("tokenizer.json")) return "";
  const std::string fault =
      in_quotes(model_dir.string()) + " has no tokenizer.json, which text needs";
  const bool pieces = has("tokenizer.model");
  if (!pieces && !(has("vocab.json") && has("merges.txt"))) {
    return fault + ": give tokens in place of text, or a model with a tokenizer";
  }
  const std::string dir = "'" + model_dir.string() + "'";
  return fault + "; transformers" + (pieces ? ", with the package sentencepiece," : "") +
         " makes it of the other files: python -c \"from transformers import AutoTokenizer as T; "
         "T.from_pretrained(" +
         dir + ").save_pretrained(" + dir + ")\"";
}

}  // namespace dotresize
