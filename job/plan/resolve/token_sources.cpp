#include "job/plan/resolve/token_sources.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/errors.h"
#include "base/text/printable.h"
#include "job/checkpoint/token_shape.h"
#include "job/plan/block_sizes.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

void require_regular_file(const std::string& key, const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    throw InputError(key, in_quotes(path.string()) + ": no such file");
  }
  if (error) throw InputError(key, in_quotes(path.string()) + ": " + error.message());
  if (!fs::is_regular_file(status))
    throw InputError(key, in_quotes(path.string()) + " is not a regular file");
}

/// Sets the files of a source, and for a token file also what its header says.
template <class Source>
std::optional<int64_t> resolve_source(const std::string& section, const Source& given,
                                      const Confinement& confinement, TokenSource& source) {
  for (const std::string& text : given.text()) {
    require_regular_file(section + ".text", text);
    source.text.emplace_back(text);
  }
  if (given.has_seqlen()) source.seqlen = given.seqlen();
  if (given.has_samples()) source.samples = given.samples();
  if (!source.text.empty()) return std::nullopt;
  source.tokens = given.tokens();
  require_regular_file(section + ".tokens", source.tokens);
  try {
    const TokenShape shape = read_token_shape(source.tokens, confinement);
    source.count = shape.count;
    return shape.row_length;
  } catch (const InputError& error) {
    throw InputError(section + ".tokens", error.what());
  }
}

}  // namespace

TokenSource calibration_source(const v1::Calibration& given, const ModelConfig& config,
                               const Confinement& confinement) {
  TokenSource source;
  const std::optional<int64_t> row_length =
      resolve_source("calibration", given, confinement, source);
  if (!source.seqlen) source.seqlen = row_length.value_or(default_seqlen(config));
  if (!source.samples) {
    source.samples =
        row_length ? std::max<int64_t>(*source.count / *source.seqlen, 1) : kDefaultSamples;
  }
  return source;
}

EvaluationSource evaluation_source(const v1::Evaluation& given, const TokenSource& calibration,
                                   const Confinement& confinement) {
  EvaluationSource source;
  source.unused_windows = given.text_size() == 0 && given.tokens().empty();
  if (source.unused_windows) {
    static_cast<TokenSource&>(source) = calibration;
  } else {
    resolve_source("evaluation", given, confinement, source);
    if (!source.seqlen) source.seqlen = calibration.seqlen;
  }
  source.samples.reset();
  if (given.has_samples()) source.samples = given.samples();
  source.kl = !given.has_kl() || given.kl();
  return source;
}

void check_seqlen(const std::string& section, bool given, const TokenSource& source,
                  const ModelConfig& config) {
  if (source.seqlen.value_or(0) <= config.longest_window()) return;
  const bool stretched = std::ranges::any_of(
      config.rotaries, [](const RotaryConfig& rotary) { return rotary.type == "dynamic"; });
  throw InputError(
      section + ".seqlen",
      std::to_string(*source.seqlen) + " is more than the model's max_position_embeddings, " +
          std::to_string(config.max_position_embeddings) +
          (stretched ? ", times the factor of its rotary embedding, " +
                           std::to_string(config.longest_window())
                     : "") +
          (given ? ""
                 : ": the rows of the token file have this length; a smaller seqlen cuts them"));
}

}  // namespace dotresize
