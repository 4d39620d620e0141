#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/errors.h"
#include "base/files/partial_path.h"
#include "base/process/program.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "base/text/sha256.h"
#include "job/checkpoint/source_model.h"
#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "job/model/units/unit.h"
#include "job/report/stored_report.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/checkpoint/elements.h"
#include "worker/checkpoint/reader.h"
#include "worker/checkpoint/verify.h"
#include "worker/commands/token_input.h"
#include "worker/commands/worker_program.h"
#include "worker/evaluation/perplexity.h"
#include "worker/evaluation/whole_model.h"
#include "worker/transformer/load.h"
#include "worker/transformer/shortcut_check.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Problems = std::vector<std::string>;

constexpr double kPerplexityTolerance = 1e-3;  // relative difference
constexpr int64_t kComparedTokens = 512;       // tokens whose logits are compared
constexpr int64_t kComparedRows = 4096;        // rows of embeddings at a time
constexpr int64_t kRandomSeed = 1;
constexpr char kEvaluationTokens[] = "evaluation_tokens";

Dtype dtype_named(const std::string& name) {
  if (const auto dtype = find_dtype(name)) return *dtype;
  throw InputError("dtype '" + name + "' is not one of float32, float16, bfloat16");
}

/// Largest ‖difference‖ / ‖logits‖ that rounding the folded weights may cause, with both models
/// computed in float32.
double logits_tolerance(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return 1e-4;
    case Dtype::kFloat16:
      return 4e-3;
    case Dtype::kBFloat16:
      return 3e-2;
  }
  throw std::logic_error("unknown dtype");
}

/// Version for mixed dtypes: the coarsest one counts.
double logits_tolerance(const StoredDtypes& dtypes) {
  double most = logits_tolerance(dtypes.main);
  for (const auto& [tensor, dtype] : dtypes.others) most = std::max(most, logits_tolerance(dtype));
  return most;
}

/// Option that gives the source's files: "--text a.txt b.txt".
std::string option_of(const TokenSource& source) {
  if (source.text.empty()) return "--tokens " + source.tokens.string();
  std::string option = "--text";
  for (const fs::path& text : source.text) option += " " + text.string();
  return option;
}

InputError other_tokens(const TokenSource& of_job, const std::string& detail) {
  return InputError("these are not the tokens of the job's evaluation, " + option_of(of_job) +
                    ": " + detail);
}

/// Compares an output with the model that it was made from.
class Comparison {
 public:
  /// Text is tokenised with the source's tokenizer and cached in `cache_dir`.
  Comparison(const VerifyRequest& request, const fs::path& cache_dir, Problems& problems);
  void run();

 private:
  bool compare_fingerprints();
  /// Checks the table of a tied output that keeps its tied source's table: they must be bitwise
  /// equal.
  void compare_tables();
  void compare_logits();
  at::Tensor compared_ids() const;
  void compare_perplexities();
  TokenReader token_reader() const { return {request_.against, source_, cache_dir_}; }
  /// Windows of the given files that the job's evaluation has used.
  TokenWindows load_windows() const;

  const VerifyRequest& request_;
  const fs::path& cache_dir_;
  Problems& problems_;
  const ModelConfig output_;
  const ModelConfig source_;
  const ReportSummary report_;
};

Comparison::Comparison(const VerifyRequest& request, const fs::path& cache_dir, Problems& problems)
    : request_(request),
      cache_dir_(cache_dir),
      problems_(problems),
      output_(read_source_model(request.dir).config),
      source_(read_model_with_weights(request.against).config),
      report_(read_report_summary(request.dir)) {}

void Comparison::run() {
  bool full_width = std::ranges::all_of(
      output_.form.junction_widths, [&](int64_t width) { return width == source_.hidden_size; });
  for (int64_t s = 0; s < std::min(output_.num_sublayers(), source_.num_sublayers()); ++s) {
    const auto layer = static_cast<std::size_t>(layer_of(s));
    full_width = full_width && std::ranges::all_of(kUnits, [&](const Unit* unit) {
                   return unit->size(output_.layers[layer]) == unit->size(source_.layers[layer]);
                 });
  }
  if (!full_width &&
      (!report_.evaluation || !report_.dense.perplexity || !report_.compressed.perplexity)) {
    throw InputError((request_.dir / "dotresize/report.json").string() +
                     ": has no perplexities to measure again, because the job had no evaluation");
  }
  if (!full_width && !request_.source.given()) {
    throw UsageError(
        request_.dir.string() + " is narrower than " + request_.against.string() +
        ", so the reported perplexities are measured again: give the text or tokens of its job's "
        "evaluation, " +
        option_of(*report_.evaluation));
  }
  if (!compare_fingerprints()) return;  // another model; its results need not agree
  compare_tables();
  if (full_width) {
    compare_logits();
  } else {
    compare_perplexities();
  }
}

bool Comparison::compare_fingerprints() {
  const size_t before = problems_.size();
  std::vector<fs::path> files = CheckpointReader(request_.against, source_).files();
  files.push_back(request_.against / "config.json");
  for (const fs::path& file : files) {
    const auto known = report_.fingerprints.find(file.filename().string());
    if (known == report_.fingerprints.end()) {
      problems_.push_back(file.string() + ": not among the source's files in the report");
    } else if (sha256_of_file(file) != known->second) {
      problems_.push_back(file.string() +
                          ": its content differs from the source named in the report");
    }
  }
  return problems_.size() == before;
}

TokenWindows Comparison::load_windows() const {
  EvaluationSource evaluation = *report_.evaluation;
  TokenSource calibration = report_.calibration;
  for (TokenSource* source : {static_cast<TokenSource*>(&evaluation), &calibration}) {
    source->text = request_.source.text;
    source->tokens = request_.source.tokens;
  }
  if (request_.source.seqlen && request_.source.seqlen != evaluation.seqlen) {
    throw InputError(fmt::format("--seqlen {}: the job's evaluation had windows of {} tokens",
                                 *request_.source.seqlen, evaluation.seqlen.value_or(0)));
  }
  token_file(request_.source, token_reader());  // has faults of its own
  try {
    SelfCommunicator self;
    return load_evaluation_windows(self, evaluation, calibration, token_reader());
  } catch (const InputError&) {
    throw other_tokens(*report_.evaluation, "the given ones have too few windows");
  }
}

/// Returns [windows, tokens]: the first given tokens, or random ones.
at::Tensor Comparison::compared_ids() const {
  if (!request_.source.given()) {
    const int64_t tokens = std::min<int64_t>(64, source_.max_position_embeddings);
    const at::Generator generator = at::detail::createCPUGenerator(kRandomSeed);
    return at::randint(0, source_.vocab_size, {kComparedTokens / tokens, tokens}, generator,
                       at::kLong);
  }
  EvaluationSource any{request_.source};
  if (!any.seqlen && report_.evaluation) any.seqlen = report_.evaluation->seqlen;
  SelfCommunicator self;
  const at::Tensor windows =
      load_evaluation_windows(self, any, /*calibration=*/{}, token_reader()).windows;
  const int64_t tokens = std::min(kComparedTokens, windows.size(1));
  const int64_t rows = std::min(kComparedTokens / tokens, windows.size(0));
  return windows.narrow(0, 0, rows).narrow(1, 0, tokens);
}

void Comparison::compare_tables() {
  const bool common = output_.tie_word_embeddings && source_.tie_word_embeddings &&
                      output_.embedding_width() == source_.hidden_size;
  if (!common) return;
  const CheckpointReader output(request_.dir, output_);
  const CheckpointReader source(request_.against, source_);
  const StoredTensor table = embedding_tensor(output_);
  const at::ScalarType dtype = output.get(table.name, table.shape).scalar_type();
  for (int64_t first = 0; first < output_.vocab_size; first += kComparedRows) {
    const int64_t count = std::min(kComparedRows, output_.vocab_size - first);
    const auto rows = [&](const CheckpointReader& reader, const ModelConfig& config) {
      return load_rows(reader, embedding_tensor(config), first, count, dtype);
    };
    if (at::equal(rows(output, output_), rows(source, source_))) continue;
    problems_.push_back(
        fmt::format("tensor '{}' differs from the source's in rows {} to {}; an output with tied "
                    "embeddings keeps it",
                    table.name, first, first + count - 1));
    return;
  }
}

void Comparison::compare_logits() {
  const at::Tensor ids = compared_ids();
  const auto logits_of = [&](const fs::path& dir, const ModelConfig& config) {
    return logits(load_whole_model(CheckpointReader(dir, config), config, at::kFloat), ids);
  };
  const at::Tensor expected = logits_of(request_.against, source_);
  const at::Tensor found = logits_of(request_.dir, output_);
  const double difference =
      (found - expected).norm().item<double>() / expected.norm().item<double>();
  const StoredDtypes dtypes = report_.output_dtypes.value_or(output_.files.dtypes);
  const double tolerance = logits_tolerance(dtypes);
  if (difference <= tolerance) return;
  problems_.push_back(fmt::format(
      "the logits of output and source differ by {:.2g} of their norm; at full width in {} it "
      "should be at most {:g}",
      difference, to_string(dtypes), tolerance));
}

void Comparison::compare_perplexities() {
  const TokenWindows tokens = load_windows();
  const auto known = report_.fingerprints.find(kEvaluationTokens);
  if (known == report_.fingerprints.end() || known->second != tokens.fingerprint) {
    throw other_tokens(*report_.evaluation,
                       "the SHA-256 of the windows is " + tokens.fingerprint +
                           ", the report says " +
                           (known == report_.fingerprints.end() ? "nothing" : known->second));
  }
  const at::ScalarType dtype = scalar_type(dtype_named(report_.compute_dtype));
  const auto compare = [&](const char* what, const fs::path& dir, const ModelConfig& config,
                           double reported) {
    const CheckpointReader reader(dir, config);
    const double measured =
        checkpoint_nll_alone(reader, config, tokens.windows, dtype).perplexity();
    if (std::abs(measured / reported - 1) <= kPerplexityTolerance) return;
    problems_.push_back(fmt::format("the {} perplexity is {:.6g}, the report says {:.6g}", what,
                                    measured, reported));
  };
  compare("dense", request_.against, source_, *report_.dense.perplexity);
  compare("compressed", request_.dir, output_, *report_.compressed.perplexity);
}

/// Dtypes of an output's tensors as its report states them. Without a report, config.json states
/// one for all.
struct StatedDtypes {
  StoredDtypes dtypes;
  const char* by;
};

std::optional<StatedDtypes> stated_dtypes(const fs::path& dir, const ModelConfig& config) {
  if (is_model_of_dotresize(dir)) {
    if (auto dtypes = read_report_summary(dir).output_dtypes) {
      return StatedDtypes{std::move(*dtypes), "the report"};
    }
  }
  if (!config.files.stated_dtype) return std::nullopt;
  return StatedDtypes{{*config.files.stated_dtype, {}}, "config.json"};
}

void verify_dtypes(const CheckpointReader& reader, const ModelConfig& config,
                   const StatedDtypes& stated, Problems& problems) {
  const Dtype main = stated.dtypes.main;
  if (config.files.stated_dtype && *config.files.stated_dtype != main) {
    problems.push_back(fmt::format("config.json says dtype {}, {} says {}",
                                   to_string(*config.files.stated_dtype), stated.by,
                                   to_string(main)));
  }
  for (const StoredTensor& tensor : shard_tensors(config, 0, config.num_sublayers())) {
    const bool apart = !tensor.slice || reader.has(tensor.name);
    if (!apart && tensor.slice->index > 0) continue;
    const std::string& name = apart ? tensor.name : tensor.slice->whole;
    const std::vector<int64_t> shape = apart ? tensor.shape : tensor.shape_in_files();
    if (!reader.has(name) || reader.shape(name) != shape) continue;
    const at::ScalarType found = reader.get(name, shape).scalar_type();
    const Dtype wanted = stated.dtypes.of(tensor.name);
    if (scalar_type(wanted) == found) continue;
    std::string dtype = c10::toString(found);
    for (const Dtype known : {Dtype::kFloat32, Dtype::kFloat16, Dtype::kBFloat16}) {
      if (scalar_type(known) == found) dtype = to_string(known);  // as config.json has it
    }
    problems.push_back(fmt::format("tensor {} is {}, {} says {}", in_quotes(name), dtype, stated.by,
                                   to_string(wanted)));
  }
}

void verify_shortcuts(const CheckpointReader& reader, const ModelConfig& config,
                      Problems& problems) {
  for (int64_t sublayer = 0; sublayer < config.num_sublayers(); ++sublayer) {
    for (const StoredTensor& stored : sublayer_tensors(config, sublayer)) {
      const bool factor = stored.role == TensorRole::kShortcutA;
      if (stored.role != TensorRole::kShortcut && !factor) continue;
      if (!reader.has(stored.name) || reader.shape(stored.name) != stored.shape) continue;
      const at::Tensor tensor = reader.get(stored.name, stored.shape);
      if (!all_finite(tensor)) continue;
      if (config.shortcut(sublayer).factors != 1) continue;  // oblique maps may stretch
      const int64_t width = config.form.junction_widths.at(static_cast<size_t>(sublayer) + 1);
      const auto problem = factor ? shortcut_factor_problem(tensor, width)
                                  : shortcut_problem(tensor, config.hidden_size);
      if (problem) problems.push_back("tensor " + in_quotes(stored.name) + " " + *problem);
    }
  }
}

/// Checks that the files which the report lists are there: SHA256SUMS does not tell of a file that
/// was removed with its line.
void verify_listed_files(const fs::path& dir, Problems& problems) {
  if (!fs::exists(dir / kReportDirectory / kReportFile)) {
    problems.push_back(fmt::format("{}/{}: missing", kReportDirectory, kReportFile));
    return;
  }
  for (const std::string& file : read_report_summary(dir).files) {
    if (fs::exists(fs::symlink_status(dir / file))) continue;
    const auto is_told = [&](const std::string& problem) { return problem.starts_with(file); };
    if (std::ranges::any_of(problems, is_told)) continue;
    problems.push_back(fmt::format("{}: listed in {}/{}, but missing", printable(file),
                                   kReportDirectory, kReportFile));
  }
}

/// Checks an output directory by itself: its files, verify_model_dir against its config.json, the
/// stated dtypes, and shortcut_problem of every shortcut. Throws InputError if there is no such
/// directory or its config.json cannot be used.
VerifyResult verify_output(const fs::path& dir) {
  if (!fs::is_directory(dir)) throw InputError(dir.string() + ": no such directory");
  if (!is_model_of_dotresize(dir) && !fs::exists(dir / kSumsFile)) {
    throw InputError(dir.string() + ": not written by dotresize: it has neither " +
                     kReportDirectory + "/" + kReportFile + " nor SHA256SUMS");
  }
  const ModelConfig config = read_model_config(dir);
  VerifyResult result =
      verify_model_dir(dir, expected_shapes(config), config.files.wrapper.has_value());
  try {
    verify_listed_files(dir, result.problems);
    // Misshapen tensors of a wrapper, whose names are not those of the config, are not looked at.
    const CheckpointReader reader = config.files.wrapper
                                        ? CheckpointReader(dir, read_source_model(dir).config)
                                        : CheckpointReader(dir);
    if (const auto stated = stated_dtypes(dir, config)) {
      verify_dtypes(reader, config, *stated, result.problems);
    }
    verify_shortcuts(reader, config, result.problems);
  } catch (const InputError& error) {
    // verify_model_dir has already reported a checkpoint that cannot be opened.
    if (result.problems.empty()) result.problems.emplace_back(error.what());
  }
  return result;
}

}  // namespace

int verify_command(const VerifyRequest& request, bool json) {
  const c10::InferenceMode no_autograd;
  VerifyResult result = verify_output(request.dir);
  if (!request.against.empty()) {
    const TokenCache cache = TokenCache::of_user();
    try {
      Comparison(request, cache.path(), result.problems).run();
    } catch (const InputError& error) {
      result.problems.emplace_back(error.what());
    }
  }
  if (json) {
    const nlohmann::json document = {{"ok", result.problems.empty()},
                                     {"problems", result.problems},
                                     {"files", result.files},
                                     {"tensors", result.tensors},
                                     {"parameters", result.parameters}};
    fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    for (const std::string& problem : result.problems) fmt::print("{}\n", problem);
    fmt::print("{}: {}, {}, {}, {}\n", request.dir.string(), counted(result.files, "file"),
               counted(result.tensors, "tensor"), counted(result.parameters, "parameter"),
               result.problems.empty() ? "OK" : counted(result.problems.size(), "problem"));
  }
  return result.problems.empty() ? kExitOk : kExitBadData;
}

}  // namespace dotresize
