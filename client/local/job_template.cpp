#include "client/local/job_template.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/file_changes.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "client/local/size_alternatives.h"
#include "dotresize/v1/job.pb.h"
#include "job/checkpoint/source_model.h"
#include "job/checkpoint/token_shape.h"
#include "job/model/model_size.h"
#include "job/plan/block_sizes.h"
#include "job/plan/check_files.h"
#include "job/plan/resolve/resolve_job.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

constexpr double kSize = 0.8;
/// Limit of the estimated time on the reference CPU. A job with the fewest samples may exceed it.
constexpr double kReasonableSeconds = 20.0 * 60.0;
constexpr uint32_t kFewestSamples = 16;
constexpr int64_t kSeqlen = 1024;

/// True if YAML reads the plain scalar as a null, a truth value or a number, or may.
bool has_other_meaning(const std::string& text) {
  if (text[0] == '-' || text[0] == '_' || (text[0] >= '0' && text[0] <= '9')) return true;
  const YAML::Node node = YAML::Load(text);
  bool truth = false;
  double number = 0.0;
  return node.IsNull() || YAML::convert<bool>::decode(node, truth) ||
         YAML::convert<double>::decode(node, number);
}

/// YAML scalar: plain if that is safe, else in double quotes (a JSON string is valid YAML).
std::string yaml_text(const std::string& text) {
  if (!text.empty() && is_plain_word(text, "-_./") && !has_other_meaning(text)) return text;
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Path for a file in `folder`: absolute unless that is the working directory. A job file expands a
/// leading "~".
std::string path_from(const fs::path& folder, const std::string& path) {
  const bool same = (folder.empty() || folder == ".") && !path.starts_with("~");
  return yaml_text(same ? path : fs::absolute(path).lexically_normal().string());
}

fs::path directory_of(const TemplateRequest& request) {
  const fs::path model = fs::absolute(request.model).lexically_normal();
  return model.has_filename() ? model : model.parent_path();  // trailing slash
}

/// The template's job, without the keys that are commented out.
v1::JobSpec default_job(const TemplateRequest& request, const ModelConfig& config) {
  v1::JobSpec spec;
  spec.set_name("template");
  spec.mutable_model()->set_path(request.model);
  spec.mutable_output()->set_path(directory_of(request).string() + "-template");
  spec.mutable_method()->set_size(kSize);
  v1::Calibration& calibration = *spec.mutable_calibration();
  for (const std::string& text : request.text) calibration.add_text(text);
  calibration.set_tokens(request.tokens);
  calibration.set_samples(kDefaultSamples);
  int64_t seqlen = kSeqlen;
  if (!request.tokens.empty()) {
    seqlen = read_token_shape(request.tokens).row_length.value_or(seqlen);
  }
  calibration.set_seqlen(static_cast<uint32_t>(std::min(seqlen, config.max_position_embeddings)));
  spec.mutable_evaluation();
  constexpr int64_t kMostRanks = 8;
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const int64_t ranks = std::min({kMostRanks, cores, config.num_sublayers()});
  spec.mutable_resources()->set_ranks(static_cast<uint32_t>(ranks));
  return spec;
}

/// Halves the samples while the text is too short for them or the job would take too long.
void choose_samples(const ModelConfig& config, v1::JobSpec& spec) {
  v1::Calibration& calibration = *spec.mutable_calibration();
  for (;;) {
    std::string fault;  // why the text is too short
    for (const FileFinding& finding : check_inputs(resolve_job(spec, config), config)) {
      const bool of_source =
          finding.key == "calibration.text" || finding.key == "calibration.tokens";
      if (of_source && fault.empty()) fault = finding.what;
    }
    const uint32_t fewer = calibration.samples() / 2;
    if (fault.empty() &&
        (fewer < kFewestSamples || reference_seconds(spec, config) <= kReasonableSeconds)) {
      return;
    }
    if (fewer == 0) throw InputError(calibration.text_size() > 0 ? "--text" : "--tokens", fault);
    calibration.set_samples(fewer);
  }
}

std::string about(double time_s) {
  if (time_s < 100.0) return fmt::format("about {:.0f} s", std::ceil(time_s));
  return fmt::format("about {:.0f} min", time_s / 60.0);
}

/// Text on the time of one width for all junctions, compared with `time`, the job's. That width may
/// not be available.
std::string uniform_width_text(v1::JobSpec spec, const ModelConfig& config,
                               const std::string& time) {
  spec.mutable_method()->set_name(v1::Method::slicegpt);
  try {
    return fmt::format("{} instead of {}, and worse", about(reference_seconds(spec, config)), time);
  } catch (const InputError&) {
    return "none is that small";
  }
}

constexpr char kTemplate[] =
    R"(# A job of dotresize: {time} on two cores. `dotresize plan {file}` shows what comes of it,
# `dotresize run {file}` runs it; docs/job-file.md has all keys.
model:
  path: {model}   # {family}, {parameters} parameters
output:
  path: {output}   # must not exist yet
  report_html: true      # dotresize/report.html, a page with plots
  # format: stock        # loads without remote code in every engine of the family; somewhat worse
method:
  size: {size}              # of the dense bytes; widths, features and ranks are chosen by their loss
  # name: slicegpt       # one width for all junctions: {uniform}
  # name: pca_dotresize  # the paper's, likewise; sparsity: 0.2 in place of size takes 20 % of the width
calibration:
  {source}
  samples: {samples}            # windows of seqlen tokens, spread over the text; more are better, and slower
  seqlen: {seqlen}
evaluation: {{}}           # windows of the same text that the calibration does not use
# evaluation:            # the better test, in its place: text of another source
#   text: [evaluation.txt]
# heal: {{}}               # trains the output on the dense model's predictions: better, {healing} more
resources:
  ranks: {ranks}               # MPI processes, at most two per layer
  device: auto           # GPUs if every rank has one, else the CPU
)";

void require_source(const TemplateRequest& request) {
  if (request.text.empty() && request.tokens.empty()) {
    throw InputError(
        "--text",
        "is needed for the calibration: text like that which the model will see, UTF-8 or "
        "a .jsonl, .json or .parquet of texts or conversations (--tokens if the model "
        "has no tokenizer.json)");
  }
  for (const std::string& file : request.text) {
    if (!fs::is_regular_file(file)) throw InputError("--text", in_quotes(file) + " is not a file");
  }
  if (!request.tokens.empty() && !fs::is_regular_file(request.tokens)) {
    throw InputError("--tokens", in_quotes(request.tokens) + " is not a file");
  }
}

}  // namespace

std::string job_template(const TemplateRequest& request) {
  require_model_directory(request.model);
  const ModelConfig config = read_source_model(request.model).config;
  if (config.compressed) {
    throw InputError(request.model + " is already compressed; a dense model is needed");
  }
  require_source(request);
  v1::JobSpec spec = default_job(request, config);
  choose_samples(config, spec);
  const double seconds = reference_seconds(spec, config);
  v1::JobSpec healed = spec;
  healed.mutable_heal();
  const std::string time = about(seconds);
  const std::string family = config.files.wrapper
                                 ? "the text part of a " + config.files.wrapper->model_type
                                 : config.family;
  const fs::path folder = fs::path(request.job_file).parent_path();
  const std::string name = directory_of(request).filename().string().substr(0, 90) + "-80";
  std::string source;
  if (request.tokens.empty()) {
    std::string names;
    for (const std::string& text : request.text) {
      names += (names.empty() ? "" : ", ") + path_from(folder, text);
    }
    source = "text: [" + names + "]";
  } else {
    source = "tokens: " + path_from(folder, request.tokens);
  }
  return fmt::format(
      kTemplate, fmt::arg("time", time), fmt::arg("file", request.job_file),
      fmt::arg("model", path_from(folder, request.model)), fmt::arg("family", family),
      fmt::arg("parameters", with_separators(stored_parameters(config))),
      fmt::arg("output", yaml_text("out/" + name)), fmt::arg("size", kSize),
      fmt::arg("uniform", uniform_width_text(spec, config, time)),
      fmt::arg("healing", about(reference_seconds(healed, config) - seconds)),
      fmt::arg("source", source), fmt::arg("samples", spec.calibration().samples()),
      fmt::arg("seqlen", spec.calibration().seqlen()), fmt::arg("ranks", spec.resources().ranks()));
}

void write_job_template(const TemplateRequest& request) {
  const std::string text = job_template(request);
  try {
    OutputFile file(request.job_file, OutputFile::Mode::kMustNotExist, 0666);
    file.write(text.data(), text.size(), 0);
    file.close();
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::file_exists) {
      throw InputError(request.job_file + " exists and is not overwritten: name another file");
    }
    std::error_code left_behind;
    files::remove(request.job_file, left_behind);  // half written
    throw;
  }
}

}  // namespace dotresize
