#include "job/report/result_table.h"

#include "base/text/human_text.h"
#include "job/plan/plan_table.h"

namespace dotresize {
namespace {

std::vector<std::string> size_row(const std::string& name, int64_t before, int64_t after,
                                  std::string (*format)(int64_t)) {
  return {name, format(before), format(after),
          format_change(static_cast<double>(before), static_cast<double>(after))};
}

}  // namespace

std::vector<std::vector<std::string>> result_rows(const ModelReport& dense,
                                                  const ModelReport& compressed) {
  std::vector<std::vector<std::string>> rows = {{"", "dense", "compressed", "change"}};
  if (dense.perplexity && compressed.perplexity) {
    rows.push_back({"perplexity", format_perplexity(*dense.perplexity),
                    format_perplexity(*compressed.perplexity),
                    format_change(*dense.perplexity, *compressed.perplexity)});
  }
  if (compressed.kl) rows.push_back({"KL", "", format_nats(*compressed.kl), ""});
  if (compressed.agreement) {
    rows.push_back({"agreement", "", format_percent(*compressed.agreement), ""});
  }
  rows.push_back(size_row("parameters", dense.parameters, compressed.parameters, with_separators));
  rows.push_back(size_row("bytes", dense.bytes, compressed.bytes, human_bytes));
  return rows;
}

std::string result_table(const ModelReport& dense, const ModelReport& compressed) {
  return format_table(result_rows(dense, compressed),
                      {Align::kLeft, Align::kRight, Align::kRight, Align::kRight});
}

std::string width_text(const JunctionWidths& widths, int64_t hidden_size) {
  return width_range(widths) + " of " + std::to_string(hidden_size);
}

}  // namespace dotresize
