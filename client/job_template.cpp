#include "client/job_template.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/errors.h"
#include "base/human_text.h"
#include "base/printable.h"
#include "base/unique_fd.h"
#include "dotresize/v1/job.pb.h"
#include "job/model/model_config.h"
#include "job/model/model_size.h"
#include "job/plan/check_files.h"
#include "job/plan/resolved_job.h"
#include "job/plan/token_windows.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

constexpr double kSize = 0.8;

/// A plain scalar if that is safe, else in double quotes, whose JSON form is YAML's too.
std::string yaml_text(const std::string& text) {
  const bool number =
      !text.empty() && (text[0] == '-' || text[0] == '_' || (text[0] >= '0' && text[0] <= '9'));
  if (!text.empty() && !number && is_plain_word(text, "-_./")) return text;
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// As it is written into a file in another folder than the working directory.
std::string path_from(const fs::path& folder, const std::string& path) {
  const bool same = folder.empty() || folder == ".";
  return yaml_text(same ? path : fs::absolute(path).lexically_normal().string());
}

/// The width that the size comes to; nothing if no width does.
std::optional<int64_t> width_for(const std::string& model_path, const ModelConfig& config) {
  v1::JobSpec spec;
  spec.set_name("template");
  spec.mutable_model()->set_path(model_path);
  spec.mutable_output()->set_path(fs::absolute(model_path).string() + "-template");
  spec.mutable_method()->set_size(kSize);
  // Any file that is there: a plan reads no tokens.
  spec.mutable_calibration()->set_tokens((fs::path(model_path) / "config.json").string());
  try {
    return resolve_job(spec, config).widths.largest();
  } catch (const InputError&) {
    return std::nullopt;
  }
}

std::string target_line(const std::string& model_path, const ModelConfig& config) {
  const auto width = width_for(model_path, config);
  if (!width) {
    return fmt::format(
        "  sparsity: 0.2          # of the width; no width makes it {} of the bytes\n", kSize);
  }
  return fmt::format(
      "  size: {}              # of the dense bytes: width {} of {}; or sparsity: 0.2 of the "
      "width\n",
      kSize, *width, config.hidden_size);
}

std::string source_lines(const TemplateRequest& request, const fs::path& folder) {
  if (!fs::exists(fs::path(request.model) / "tokenizer.json")) {
    return "  tokens: calibration.safetensors   # the model has no tokenizer.json; an integer "
           "tensor \"tokens\"\n";
  }
  if (request.text.empty())
    return "  text: [calibration.txt]   # replace: UTF-8 text like that of its use\n";
  std::string names;
  for (const std::string& text : request.text) {
    names += (names.empty() ? "" : ", ") + path_from(folder, text);
  }
  return "  text: [" + names + "]\n";
}

int64_t sensible_ranks(const ModelConfig& config) {
  constexpr int64_t kMost = 8;
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  return std::min({kMost, cores, config.num_sublayers()});
}

}  // namespace

std::string job_template(const TemplateRequest& request) {
  require_model_directory(request.model);
  const ModelConfig config = read_model_config(request.model);
  if (config.compressed) {
    throw InputError(request.model + " is already compressed; a dense model is needed");
  }
  const fs::path folder = fs::path(request.job_file).parent_path();
  fs::path model = fs::absolute(request.model).lexically_normal();
  if (!model.has_filename()) model = model.parent_path();  // it ends with a slash
  const std::string name = model.filename().string().substr(0, 90) + "-80";
  const int64_t parameters = stored_parameters(config);
  return fmt::format(
      "# A job of dotresize. `dotresize plan {file}` shows what comes of it; docs/job-file.md has "
      "all "
      "keys.\n"
      "name: {name}\n"
      "model:\n"
      "  path: {model}   # {family}, {parameters} parameters\n"
      "output:\n"
      "  path: {output}   # must not exist yet\n"
      "method:\n"
      "  name: pca_dotresize    # or dotresize, slicegpt, magnitude\n"
      "{target}"
      "calibration:\n"
      "{source}"
      "  samples: {samples}           # windows of seqlen tokens, spread over the text\n"
      "  seqlen: {seqlen}\n"
      "# evaluation:            # perplexity before and after, over text that is not calibrated "
      "on\n"
      "#   text: [evaluation.txt]\n"
      "resources:\n"
      "  ranks: {ranks}               # MPI processes, at most two per layer\n"
      "  device: auto           # GPUs if every rank has one, else the CPU\n",
      fmt::arg("file", request.job_file), fmt::arg("name", yaml_text(name)),
      fmt::arg("model", path_from(folder, request.model)), fmt::arg("family", config.family),
      fmt::arg("parameters", with_separators(parameters)),
      fmt::arg("output", yaml_text("out/" + name)),
      fmt::arg("target", target_line(request.model, config)),
      fmt::arg("source", source_lines(request, folder)), fmt::arg("samples", kDefaultSamples),
      fmt::arg("seqlen", std::min(kDefaultSeqlen, config.max_position_embeddings)),
      fmt::arg("ranks", sensible_ranks(config)));
}

void write_job_template(const TemplateRequest& request) {
  const std::string text = job_template(request);
  const UniqueFd file(
      ::open(request.job_file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file && errno == EEXIST) {
    throw InputError(request.job_file + " exists, and is not overwritten: name another file");
  }
  if (file && ::write(file.get(), text.data(), text.size()) == std::ssize(text)) return;
  const std::string why = std::strerror(errno);
  if (file) fs::remove(request.job_file);  // what is half written
  throw InputError(request.job_file + ": cannot write: " + why);
}

}  // namespace dotresize
