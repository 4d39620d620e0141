#include "job/plan/resolve/output_target.h"

#include <filesystem>
#include <optional>
#include <string>

#include "base/errors.h"
#include "base/text/printable.h"
#include "job/model/tensor_table.h"
#include "job/spec/spec_paths.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

/// Returns the source's dtype of each tensor, or the one that the job asks for. What decides the
/// choice of experts is not rounded. The head of a tied source is its embedding, also if the output
/// has a head of its own.
StoredDtypes output_dtypes(const v1::Output& given, const ModelConfig& config) {
  const std::optional<Dtype> asked = find_dtype(v1::Output::Dtype_Name(given.dtype()));
  if (asked) {
    StoredDtypes dtypes{*asked, {}};
    for (int64_t sublayer = 1; sublayer < config.num_sublayers(); sublayer += 2) {
      if (!config.is_mixture(sublayer) || !config.mlp(sublayer).mixture->choice_bias) continue;
      for (const StoredTensor& tensor : sublayer_tensors(config, sublayer)) {
        if (tensor.role != TensorRole::kChoiceBias) continue;
        dtypes.set(tensor.name, config.files.dtypes.of(tensor.name));
      }
    }
    return dtypes;
  }
  StoredDtypes dtypes = config.files.dtypes;
  if (config.tie_word_embeddings) {
    dtypes.set(head_tensors(config).back().name, dtypes.of(embedding_tensor(config).name));
  };
  return dtypes;
}

fs::path canonical(const std::string& key, const fs::path& path) {
  std::error_code error;
  fs::path result = fs::weakly_canonical(path, error);
  if (error) throw InputError(key, in_quotes(path.string()) + ": " + error.message());
  return result;
}

}  // namespace

OutputTarget output_target(const v1::Output& given, const ModelConfig& config) {
  OutputTarget output;
  output.path = given.path();
  output.name = given.destination().empty() ? given.path() : given.destination();
  output.overwrite = given.overwrite();
  output.report_html = given.report_html();
  output.writes_maps = given.maps();
  output.dtypes = output_dtypes(given, config);
  return output;
}

void check_output_is_apart(const ResolvedJob& job) {
  const fs::path output = canonical("output.path", job.output.path);
  if (is_within(output, canonical("model.path", job.model.path))) {
    throw InputError("output.path", in_quotes(job.output.path.string()) + " lies in model.path");
  }
  const auto refuse_within_output = [&](const std::string& key, const fs::path& path) {
    if (!path.empty() && is_within(canonical(key, path), output)) {
      throw InputError(key, in_quotes(path.string()) + " lies in output.path");
    }
  };
  refuse_within_output("model.path", job.model.path);
  const auto check_source = [&](const std::string& section, const TokenSource& source) {
    for (const fs::path& text : source.text) refuse_within_output(section + ".text", text);
    refuse_within_output(section + ".tokens", source.tokens);
  };
  check_source("calibration", job.calibration);
  refuse_within_output(job.statistics.key(), job.statistics.directory());
  if (job.statistics.given() &&
      is_within(output, canonical(job.statistics.key(), job.statistics.directory()))) {
    throw InputError("output.path",
                     in_quotes(job.output.path.string()) + " lies in " + job.statistics.key());
  }
  if (job.evaluation) check_source("evaluation", *job.evaluation);
}

}  // namespace dotresize
