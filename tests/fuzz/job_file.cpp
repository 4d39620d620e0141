#include "job/spec/job_file.h"

#include <google/protobuf/util/message_differencer.h>
#include <yaml-cpp/yaml.h>

#include <optional>

#include "base/errors.h"
#include "job/spec/sweep_file.h"
#include "job/spec/yaml_file.h"
#include "tests/fuzz/targets.h"

namespace dotresize {
namespace {

using google::protobuf::util::MessageDifferencer;

constexpr char kFolder[] = "/data";

/// Returns the parsed file; nullopt if it is refused.
template <class Parse>
auto accepted(const Parse& parse) -> std::optional<decltype(parse())> {
  try {
    return parse();
  } catch (const InputError&) {
    return std::nullopt;
  }
}

void check_job(const std::string& bytes) {
  const auto job = accepted([&] { return parse_job(bytes, "job.yaml", kFolder).spec; });
  if (!job) return;
  const v1::JobSpec again = parse_job(job_spec_to_json(*job), "job.json", kFolder).spec;
  require(MessageDifferencer::Equals(again, *job), "a job is the same in its JSON form");
}

void check_sweep(const std::string& bytes) {
  const auto sweep = accepted([&] { return parse_sweep(bytes, "sweep.yaml", kFolder); });
  if (!sweep) return;
  const std::string json = sweep_to_json(sweep->base.spec, sweep_spec_of(*sweep));
  const SweepFile again = parse_sweep(json, "sweep.json", kFolder);
  require(again.keep == sweep->keep && again.axes.size() == sweep->axes.size() &&
              variants_of(again).size() == variants_of(*sweep).size() &&
              MessageDifferencer::Equals(again.base.spec, sweep->base.spec),
          "a sweep is the same in its JSON form");
}

}  // namespace

void fuzz_job_file(const std::string& bytes) {
  const auto root = accepted([&] { return load_yaml(bytes, "file.yaml"); });
  if (!root) return;
  (*root)["sweep"].IsDefined() ? check_sweep(bytes) : check_job(bytes);
}

}  // namespace dotresize
