#include "job/sweep/sweep_plan.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/files/directory.h"
#include "base/files/input_file.h"
#include "base/process/program.h"
#include "base/process/work_budget.h"
#include "base/text/encodings.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "base/text/sha256.h"
#include "job/checkpoint/source_model.h"
#include "job/plan/check_files.h"
#include "job/plan/plan_job.h"
#include "job/plan/resolve/resolve_method.h"
#include "job/plan/text_files.h"
#include "job/spec/job_file.h"
#include "job/spec/spec_paths.h"
#include "job/spec/validate_spec.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr size_t kHashDigits = 8;
constexpr size_t kMaxLabel = 60;

std::string hash_of(const std::string& text) {
  return sha256_of_bytes(text.data(), text.size()).substr(0, kHashDigits);
}

/// Returns the canonical path, whatever its spelling. Empty stays empty.
fs::path real_path(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);
  return error || path.empty() ? path : real;
}

/// Text that identifies a file's version without reading it: path, size and times. The modification
/// time can be set, the time of the last change cannot.
std::string facts_of(const fs::path& named) {
  WorkBudget::check();
  const fs::path file = real_path(named);
  const std::optional<FileStamp> stamp = stamp_of_file(file);
  if (!stamp) return file.string() + " missing\n";
  return fmt::format("{} {} {} {}\n", file.string(), stamp->bytes, stamp->modified_ns,
                     stamp->changed_ns);
}

std::string facts_of_model(const fs::path& dir) {
  std::set<fs::path> files = {dir / "config.json", dir / "tokenizer.json"};
  std::error_code error;
  for (const fs::directory_entry& entry : entries_of(dir, error)) {
    if (entry.path().extension() == ".safetensors") files.insert(entry.path());
  }
  std::string facts;
  for (const fs::path& file : files) facts += facts_of(file);
  return facts;
}

const Method& method_of(const v1::JobSpec& spec) {
  v1::Method method = spec.method();
  complete_method(method);
  return dotresize::method_of(method);
}

/// Keys that only a method with transport reads.
const std::set<std::string> kTransportKeys = {"method.lambda", "method.on_nonconvergence"};

/// Text that is equal for two jobs with the same result.
std::string identity_of(const v1::JobSpec& spec) {
  v1::JobSpec same = spec;
  same.clear_name();
  same.mutable_output()->clear_path();
  same.mutable_output()->clear_overwrite();
  same.mutable_output()->clear_report_html();
  same.clear_resources();
  same.mutable_resources()->set_device(spec.resources().device());
  same.mutable_resources()->set_compute_dtype(spec.resources().compute_dtype());
  for (const SpecPath& path : paths_of(same)) *path.value = real_path(*path.value);
  return std::string(kVersion) + "\n" + job_spec_to_json(same);
}

/// Form of a value that is the same for all its spellings. `text` is one spelling.
std::string label_of(const std::string& key, const std::string& text, const v1::JobSpec& spec) {
  if (key == "calibration.tokens") return fs::path(spec.calibration().tokens()).filename();
  if (key == "calibration.text") {
    std::string names;
    for (const std::string& file : spec.calibration().text()) {
      names += (names.empty() ? "" : ".") + fs::path(file).filename().string();
    }
    return names;
  }
  const auto number = parse_number<double>(text);
  return number ? fmt::format("{}", *number) : text;
}

std::string label_of(const std::vector<SweepAxis>& axes, const std::vector<std::string>& values,
                     const v1::JobSpec& spec) {
  std::string label;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == kNotApplicable) continue;
    if (!label.empty()) label += '_';
    for (const char c : label_of(axes[i].key, values[i], spec)) {
      label += is_plain_word({&c, 1}, "._") ? c : '-';
    }
  }
  return label.substr(0, kMaxLabel);
}

class SweepPlanner {
 public:
  /// Reads the model.
  SweepPlanner(SweepPlan& plan, const Confinement& confinement);

  void add(const SweepVariant& variant);
  /// Sets the names of the statistics that jobs share.
  void name_statistics();

 private:
  /// Key of shareable statistics: `of` is everything that they depend on but the sums of maps;
  /// `sharing` tells whose bases a second pass needs.
  struct Statistics {
    std::string of;
    std::optional<std::string> sharing;  ///< absent: no second pass
  };

  SweepJob make_job(const v1::JobSpec& spec, const std::vector<std::string>& values);
  std::optional<Statistics> statistics_of(const v1::JobSpec& spec, const ResolvedJob& job) const;
  std::string dense_loss_of(const v1::JobSpec& spec) const;
  template <class Source>
  std::string facts_of_tokens(const Source& source) const;

  SweepPlan& plan_;
  const Confinement& confinement_;
  ModelConfig model_;
  std::string facts_of_model_;
  std::set<std::string> seen_;
  std::vector<std::optional<Statistics>> statistics_;  ///< by job
};

SweepPlanner::SweepPlanner(SweepPlan& plan, const Confinement& confinement)
    : plan_(plan), confinement_(confinement) {
  const std::string& path = plan_.file.base.spec.model().path();
  try {
    require_model_directory(path);
    model_ = read_source_model(path, confinement).config;
  } catch (const InputError& error) {
    throw InputError(located(plan_.file.base, "model.path", error.description()));
  }
  facts_of_model_ = facts_of_model(path);
}

template <class Source>
std::string SweepPlanner::facts_of_tokens(const Source& source) const {
  std::string facts;
  for (const std::string& text : source.text()) facts += facts_of(text);
  if (std::ranges::any_of(source.text(), [](const fs::path& text) { return is_table(text); })) {
    for (const char* name : kTemplateFiles)
      facts += facts_of(fs::path(plan_.file.base.spec.model().path()) / name);
  }
  if (!source.tokens().empty()) facts += facts_of(source.tokens());
  return facts;
}

void SweepPlanner::add(const SweepVariant& variant) {
  WorkBudget::check();
  v1::JobSpec spec = variant.spec;
  std::vector<std::string> values = variant.values;
  if (!method_of(spec).transport()) {  // whatever these keys are, the job is the same
    for (const std::string& key : kTransportKeys) clear_key(key, spec);
    for (size_t i = 0; i < values.size(); ++i) {
      if (kTransportKeys.contains(plan_.file.axes[i].key)) values[i] = kNotApplicable;
    }
  }
  const std::string identity = identity_of(spec);
  WorkBudget::take(identity.size() + spec.SpaceUsedLong());
  if (!seen_.insert(identity).second) return;
  if (!variant.violations.empty()) {
    const FieldViolation& first = variant.violations.front();
    plan_.refused.push_back({values, first.field + ": " + first.description});
    return;
  }
  try {
    plan_.jobs.push_back(make_job(spec, values));
  } catch (const InputError& error) {
    plan_.refused.push_back({values, error.what()});
  }
}

SweepJob SweepPlanner::make_job(const v1::JobSpec& given, const std::vector<std::string>& values) {
  SweepJob made;
  made.values = values;
  made.spec = given;
  // KL is off by default, because no file of the sweep keeps the dense model's states that it
  // needs.
  if (!given.evaluation().has_kl()) made.spec.mutable_evaluation()->set_kl(false);
  const std::string hash =
      hash_of(identity_of(given) + facts_of_model_ + facts_of_tokens(given.calibration()) +
              facts_of_tokens(given.evaluation()));
  const std::string label = label_of(plan_.file.axes, values, given);
  made.id = label.empty() ? hash : label + "-" + hash;
  made.spec.mutable_output()->clear_report_html();  // the sweep has one page for all
  made.spec.mutable_output()->set_path(
      VariantPaths{plan_.directory / kSweepVariants / made.id}.model);
  const JobPlan plan = plan_job(made.spec, model_, {}, confinement_);
  const ResolvedJob& job = plan.job;
  for (const FileFinding& finding : check_inputs(job, model_)) {
    if (finding.fatal) throw InputError(finding.key, finding.what);
  }
  made.ranks = job.resources.ranks;
  made.memory_bytes = peak_memory(plan.shards) * job.resources.ranks;
  made.on_gpus = job.resources.gpu_compute_dtype.has_value();
  made.sums = job.method.sums().in_basis();
  if (job.sizes_known()) {
    made.width = job.widths.largest();
    made.bytes_fraction = plan.size.bytes_fraction();
  }
  made.dense_loss = dense_loss_of(given);
  statistics_.push_back(statistics_of(made.spec, job));
  return made;
}

std::optional<SweepPlanner::Statistics> SweepPlanner::statistics_of(const v1::JobSpec& spec,
                                                                    const ResolvedJob& job) const {
  if (!job.schedule.keeps_statistics || spec.method().has_mlp()) return std::nullopt;
  v1::JobSpec of;
  *of.mutable_calibration() = spec.calibration();
  of.mutable_calibration()->clear_activations();
  of.mutable_resources()->set_device(spec.resources().device());
  of.mutable_resources()->set_compute_dtype(spec.resources().compute_dtype());
  std::string name = job.method.pca() ? "pca" : "identity";
  name += fmt::format(" {} ", to_string(job.maps.metric));
  if (job.target.allocation) {
    name += fmt::format("allocation {} {} ", job.mlp->round_to, job.cuts_attentions());
  }
  name += kVersion + job_spec_to_json(of) + facts_of_model_ + facts_of_tokens(spec.calibration());
  Statistics statistics{name, {}};
  if (job.method.passes() > 1) statistics.sharing = job.maps.sharing();
  return statistics;
}

std::string SweepPlanner::dense_loss_of(const v1::JobSpec& spec) const {
  v1::JobSpec of;
  *of.mutable_evaluation() = spec.evaluation();
  std::string facts = facts_of_model_ + facts_of_tokens(spec.evaluation());
  if (spec.evaluation().text().empty() && spec.evaluation().tokens().empty()) {
    *of.mutable_calibration() = spec.calibration();  // the source of its windows
    of.mutable_calibration()->clear_activations();
    of.mutable_calibration()->clear_statistics();
    facts += facts_of_tokens(spec.calibration());
  } else if (!spec.evaluation()
                  .has_seqlen()) {  // uses the calibration's, which may come from its tokens
    v1::Calibration& calibration = *of.mutable_calibration();
    if (spec.calibration().has_seqlen()) calibration.set_seqlen(spec.calibration().seqlen());
    calibration.set_tokens(spec.calibration().tokens());
    if (!spec.calibration().tokens().empty()) facts += facts_of(spec.calibration().tokens());
  }
  of.mutable_resources()->set_device(spec.resources().device());
  of.mutable_resources()->set_compute_dtype(spec.resources().compute_dtype());
  return "dense-" + hash_of(kVersion + job_spec_to_json(of) + facts);
}

void SweepPlanner::name_statistics() {
  // A method can use any statistics of its basis that have its sums.
  std::map<std::string, std::string> sharing_of;
  std::map<std::string, MapSums> most;
  for (size_t i = 0; i < plan_.jobs.size(); ++i) {
    if (!statistics_[i]) continue;
    const auto& [of, sharing] = *statistics_[i];
    if (sharing) sharing_of.try_emplace(of, *sharing);
    if (plan_.jobs[i].sums.contain(most[of])) most[of] = plan_.jobs[i].sums;
  }
  std::map<std::string, int> users;
  for (size_t i = 0; i < plan_.jobs.size(); ++i) {
    if (!statistics_[i]) continue;
    const auto& [of, sharing] = *statistics_[i];
    const auto found = sharing_of.find(of);
    const std::string in = sharing ? *sharing : found == sharing_of.end() ? "" : found->second;
    SweepJob& job = plan_.jobs[i];
    job.shared_sums = most.at(of).contain(job.sums) ? most.at(of) : job.sums;
    job.statistics = std::string(method_of(job.spec).pca() ? "pca" : "identity") + "-" +
                     hash_of(fmt::format("{}\n{}\n{} {}", of, in, job.shared_sums.abs_sum,
                                         job.shared_sums.cost));
    ++users[job.statistics];
  }
  for (SweepJob& job : plan_.jobs) {
    if (!job.statistics.empty() && users[job.statistics] == 1) job.statistics.clear();
  }
}

}  // namespace

SweepPlan plan_sweep(SweepFile file, const Confinement& confinement) {
  SweepPlan plan;
  plan.file = std::move(file);
  plan.directory = plan.file.base.spec.output().path();
  SweepPlanner planner(plan, confinement);
  for (const SweepVariant& variant : variants_of(plan.file)) {
    ++plan.combinations;
    planner.add(variant);
  }
  planner.name_statistics();
  return plan;
}

std::string sweep_summary(const SweepPlan& plan, int at_once) {
  std::string text = counted(plan.combinations, "combination") + ", " +
                     counted(std::ssize(plan.jobs), "different job") + ", " +
                     std::to_string(at_once) + " at a time\n";
  int64_t without = 0;
  for (const SweepJob& job : plan.jobs) without += job.statistics.empty() ? 1 : 0;
  if (without > 0) {
    text +=
        counted(without, "job") +
        " without shared statistics: the activations are compressed, or no other job has the same "
        "basis and calibration (calibration.activations: original shares them)\n";
  }
  return text;
}

}  // namespace dotresize
