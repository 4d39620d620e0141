#include "client/local/size_alternatives.h"

#include <fmt/format.h>

#include <array>

#include "base/errors.h"
#include "base/text/human_text.h"
#include "job/plan/estimate/estimates.h"
#include "job/plan/estimate/hardware.h"
#include "job/plan/plan_job.h"
#include "job/plan/resolve/asked_size.h"
#include "job/spec/validate_spec.h"

namespace dotresize {
namespace {

struct Recipe {
  const char* text;
  bool uniform;  ///< true: one width by slicegpt; false: by the loss
  bool stock;
};

constexpr std::array<Recipe, 4> kRecipes = {{
    {"size alone", false, false},
    {"size alone, output.format: stock", false, true},
    {"name: slicegpt", true, false},
    {"name: slicegpt, output.format: stock", true, true},
}};

/// The job with this size and the same rounding, but with this recipe.
v1::JobSpec with_recipe(const v1::JobSpec& spec, double size, const Recipe& recipe) {
  v1::JobSpec changed = spec;
  v1::Method& method = *changed.mutable_method();
  method.Clear();
  method.set_size(size);
  method.set_round_to(spec.method().round_to());
  method.set_allow_larger(spec.method().allow_larger());
  if (recipe.uniform) method.set_name(v1::Method::slicegpt);
  changed.mutable_calibration()->clear_activations();
  changed.mutable_calibration()->clear_statistics();
  changed.mutable_output()->clear_architecture();
  changed.mutable_output()->set_format(recipe.stock ? v1::Output::stock : v1::Output::any);
  return changed;
}

struct ReferenceJob {
  JobPlan plan;
  double seconds;
};

ReferenceJob on_reference(v1::JobSpec spec, const ModelConfig& model) {
  v1::Hardware hardware = reference_hardware({.device = DeviceKind::kCpu});
  hardware.clear_capacity();  // only its rates matter
  const int ranks = ranks_of(spec);
  spec.mutable_resources()->Clear();
  spec.mutable_resources()->set_ranks(static_cast<uint32_t>(ranks));
  JobPlan plan = plan_job(spec, model, launch_facts(hardware, ranks));
  const double time = estimate_time(model, plan.job, plan.shards, hardware).total();
  return {std::move(plan), time};
}

}  // namespace

double reference_seconds(const v1::JobSpec& spec, const ModelConfig& model) {
  return on_reference(spec, model).seconds;
}

std::vector<SizeAlternative> size_alternatives(const v1::JobSpec& spec, const ModelConfig& model) {
  std::vector<SizeAlternative> alternatives;
  if (!asks_for_size(spec.method())) return alternatives;
  const auto [own_plan, own_seconds] = on_reference(spec, model);
  const double size = asked_size(spec.method(), model, own_plan.job.output.dtypes);
  for (const Recipe& recipe : kRecipes) {
    if (model.files.wrapper && recipe.stock) continue;  // its outputs are stock models anyway
    try {
      const auto [plan, seconds] = on_reference(with_recipe(spec, size, recipe), model);
      const ResolvedJob& job = plan.job;
      const bool known = job.sizes_known();
      alternatives.push_back({recipe.text,
                              known ? std::to_string(job.widths.largest()) : "by the loss",
                              known ? plan.size.bytes_fraction() : job.target.allocation->size,
                              seconds / own_seconds});
    } catch (const InputError&) {  // not possible for this model
    }
  }
  return alternatives;
}

std::string alternatives_table(const std::vector<SizeAlternative>& alternatives) {
  if (alternatives.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"ways to this size", "width", "net at most", "time of this job's"}};
  for (const SizeAlternative& each : alternatives) {
    rows.push_back({each.recipe, each.width, format_percent(each.bytes_fraction),
                    fmt::format("{:.2f}", each.relative_time)});
  }
  return format_table(rows, {Align::kLeft, Align::kRight, Align::kRight, Align::kRight});
}

}  // namespace dotresize
