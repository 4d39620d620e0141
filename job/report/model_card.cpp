#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/model/families/families.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/plan_table.h"
#include "job/report/report.h"

namespace dotresize {
namespace {

/// One line of text that Markdown and HTML show as it is.
std::string as_markdown(const std::string& text) {
  constexpr std::string_view kMarkup = "\\`*[]#!|~$";
  std::string escaped;
  for (const char c : printable(text)) {
    if (c == '<' || c == '>' || c == '&') {
      escaped += c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;";
      continue;
    }
    if (kMarkup.find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string size_table(const Report& report) {
  const bool evaluated = report.dense.perplexity && report.compressed.perplexity;
  const auto row = [&](const char* name, const ModelReport& model) {
    return fmt::format("| {} | {} | {} |{}\n", name, with_separators(model.parameters),
                       human_bytes(model.bytes),
                       evaluated ? fmt::format(" {:.4f} |", *model.perplexity) : "");
  };
  return std::string("| model | parameters | size |") + (evaluated ? " perplexity |" : "") +
         "\n| --- | ---: | ---: |" + (evaluated ? " ---: |" : "") + "\n" +
         row("dense", report.dense) + row("this one", report.compressed);
}

std::string evaluation_sentence(const Report& report) {
  if (!report.job.evaluation) return "";
  const auto& seqlen = report.evaluation_seqlen;
  std::string text = fmt::format("Perplexity is over {} predicted tokens{}{}. ",
                                 with_separators(report.evaluation_tokens),
                                 seqlen ? fmt::format(" in windows of {}", *seqlen) : "",
                                 report.job.evaluation->unused_windows
                                     ? " of the calibration's text that the calibration did not use"
                                     : "");
  const ModelReport& compressed = report.compressed;
  if (!compressed.kl || !compressed.agreement) return text;
  return text + fmt::format(
                    "Over the same tokens KL(dense ‖ this one) is {} nats, and the most likely "
                    "token is the same at {} of them. ",
                    format_nats(*compressed.kl), format_percent(*compressed.agreement));
}

std::string method_sentence(const Report& report, const ModelConfig& config) {
  const ResolvedJob& job = report.job;
  if (report.widths.mapped_count == 0) {
    return fmt::format("The residual stream keeps its {} channels.", config.hidden_size);
  }
  const std::string metric = job.gradients() ? ", in the metric of the loss" : "";
  std::string text = fmt::format(
      "The residual stream was narrowed from {} to {} channels with `{}`, on {} calibration "
      "activations{}",
      config.hidden_size, width_range(report.widths.smallest(), report.widths.largest()),
      job.method.name, job.schedule.sees, metric);
  if (job.method.transport()) text += fmt::format(" (λ = {})", job.maps.lambda);
  text += job.maps.head_sliced ? "; the head was narrowed as well."
                               : "; the last junction keeps its full width.";
  return text + (job.stock_output() ? " One map serves the whole model." : "");
}

std::string mlp_sentence(const ResolvedJob& job, const ModelConfig& config) {
  if (!job.mlp) return "";
  std::string text;
  if (job.mlp->width > 0) {
    text = fmt::format(" Each MLP was cut from {} to {} features.", dense_features(config),
                       job.mlp->width);
  }
  if (job.mlp->expert_width > 0) {
    text += fmt::format(" Each expert was cut from {} to {} features.", expert_features(config),
                        job.mlp->expert_width);
  }
  return text;
}

/// Sentence about the result of `method.allocate`, in place of the two sentences above.
std::string allocation_sentence(const Report& report) {
  const Allocation& allocation = *report.allocation;
  std::vector<std::string> kept;
  for (const Unit* unit : kUnits) {
    std::vector<int64_t> sizes = sizes_left(report.cuts, *unit);
    if (sizes.empty()) continue;
    const bool alike = std::ranges::min(sizes) == std::ranges::max(sizes);
    if (alike) sizes.resize(1);
    kept.push_back(
        fmt::format("{} {}{}", unit->parts, fmt::join(sizes, ", "), alike ? "" : " (by layer)"));
  }
  std::string text = fmt::format(
      " Sizes were chosen such that the loss is predicted to rise least within {} of the bytes. "
      "Left are {}",
      format_percent(report.job.target.allocation->size), fmt::join(kept, "; "));
  text += fmt::format(". KL(dense ‖ this one) is predicted to be {} nats{}",
                      format_nats(allocation.predicted_loss_increase()),
                      report.healing ? " before healing" : "");
  return text + (report.compressed.kl
                     ? fmt::format(", and measured {}.", format_nats(*report.compressed.kl))
                     : ".");
}

std::string healing_sentence(const Report& report) {
  if (!report.healing) return "";
  std::string text = fmt::format(
      " Its layers were then distilled from the dense model's, one by one, on {} tokens",
      with_separators(report.healing_tokens));
  const std::vector<double>& kl = report.healing->held_out_kl;
  if (kl.size() < 2) return text + ".";
  return text + fmt::format(": on windows held out of them, KL went from {} to {} nats.",
                            format_nats(kl.front()), format_nats(kl.back()));
}

std::string wrapper_sentence(const Report& report) {
  if (!report.wrapper) return "";
  const Wrapper& wrapper = *report.wrapper;
  return fmt::format(
      " It is the text part of a `{}`, whose other {}, {}, are as they were. Calibration and "
      "figures are of text alone, without images.",
      wrapper.model_type, counted(wrapper.other_tensors, "tensor"),
      human_bytes(wrapper.other_bytes));
}

std::string wrapper_usage(const Wrapper& wrapper) {
  return fmt::format(R"(It is a `{}` model like any other, and loads without remote code:

```python
from transformers import AutoModelForImageTextToText, AutoProcessor

model = AutoModelForImageTextToText.from_pretrained("PATH", dtype="auto")
processor = AutoProcessor.from_pretrained("PATH")
```
)",
                     wrapper.model_type);
}

std::string usage(const ResolvedJob& job, const std::string& family) {
  const std::string remote = job.stock_output() ? "" : ", trust_remote_code=True";
  const std::string why =
      job.stock_output()
          ? fmt::format("It is a `{}` model like any other, and loads without remote code:", family)
          : "The code of the architecture is in this directory, hence `trust_remote_code=True`:";
  return fmt::format(R"({0}

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("PATH", dtype="auto"{1})
tokenizer = AutoTokenizer.from_pretrained("PATH"{1})
inputs = tokenizer("Once upon a time", return_tensors="pt")
print(tokenizer.decode(model.generate(**inputs, max_new_tokens=40)[0]))
```
)",
                     why, remote);
}

/// Export commands for engines' own formats; empty if every such export of the model is refused.
std::string serving(const Report& report, const ModelConfig& config) {
  if (report.wrapper) return "";
  const bool stock = report.job.stock_output();
  const bool exported = find_family(config.family)->exports_layer_sizes;
  if (!stock && (report.widths.mapped_count > 0 || !exported)) return "";
  const bool windows = std::ranges::any_of(config.layers, [](const LayerSpec& layer) {
    return layer.attention.sliding_window.has_value();
  });
  const bool nemotron_nas = !stock && !windows;
  return fmt::format(
      "`dotresize export PATH --to gguf` makes it a file for llama.cpp{}, or names what is in the "
      "way.\n\n",
      nemotron_nas ? ", and `--to nemotron-nas` a model that vLLM computes with code of its own"
                   : "");
}

}  // namespace

std::string model_card(const Report& report, const ModelConfig& config) {
  const ResolvedJob& job = report.job;
  std::string about = method_sentence(report, config);
  about += report.allocation ? allocation_sentence(report) : mlp_sentence(job, config);
  about += healing_sentence(report);
  about += wrapper_sentence(report);
  if (job.output.stock_family) {
    about += fmt::format(
        " Its `config.json` calls it a `{}`, which computes the same as a `{}` and is read by more "
        "engines with heads of this width.",
        *job.output.stock_family, config.family);
  }
  std::string warnings;
  for (const std::string& warning : report.warnings) {
    warnings += fmt::format("> **Warning:** {}.\n\n", as_markdown(warning));
  }
  return fmt::format(
      R"(---
library_name: transformers
pipeline_tag: {9}
tags:
- dotresize
- {0}
- compression
---

# {1}

A `{0}` model made narrower with dotresize {2}.

{7}{3}

{4}
{5}Parameters and size count every stored tensor.

## Use

{6}
{8}`dotresize/report.json` has the figures of every junction and the fingerprints of the inputs;
`sha256sum -c SHA256SUMS` checks the files. The terms of the source model's license apply.
)",
      config.family, as_markdown(job.name), report.tool_version, about, size_table(report),
      evaluation_sentence(report),
      report.wrapper ? wrapper_usage(*report.wrapper)
                     : usage(job, job.output.stock_family.value_or(config.family)),
      warnings, serving(report, config), report.wrapper ? "image-text-to-text" : "text-generation");
}

}  // namespace dotresize
