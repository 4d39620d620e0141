#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

namespace dotresize {

// Facts about text files that are known before any is read. worker/python/text_files.py reads them.

/// True if the file's name says that it is a table whose rows hold the texts or conversations:
/// JSON lines, JSON or parquet.
bool is_table(const std::filesystem::path& text);

/// Files of a model that decide how conversations are written, as text_files.py lists them.
inline constexpr std::array kTemplateFiles = {"chat_template.jinja", "tokenizer_config.json",
                                              "chat_template.json", "special_tokens_map.json",
                                              "added_tokens.json"};

/// Estimates the bytes of text in a file of `bytes` bytes.
int64_t estimated_text_bytes(const std::filesystem::path& text, int64_t bytes);

/// Reason why the model's tokenizer cannot read texts, and what would help; empty if it can.
std::string tokenizer_fault(const std::filesystem::path& model_dir);

}  // namespace dotresize
