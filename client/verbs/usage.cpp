#include <algorithm>
#include <vector>

#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "client/verbs/verb.h"

namespace dotresize {
namespace {

std::string with_suggestion(const std::string& fault, const std::string& word,
                            const std::vector<std::string>& candidates) {
  const std::string suggestion = closest(word, candidates);
  return suggestion.empty() ? fault : fault + ", did you mean " + suggestion + "?";
}

}  // namespace

std::string usage_fault(const CLI::App& app, const CLI::ParseError& error) {
  const auto parsed = app.get_subcommands();
  const auto named =
      std::ranges::find_if(parsed, [](const CLI::App* one) { return !one->get_name().empty(); });
  const CLI::App& verb = named == parsed.end() ? app : **named;
  const std::vector<std::string> unexpected = app.remaining(/*recurse=*/true);
  const std::string of_verb = &verb == &app ? "" : verb.get_name() + ": ";
  if (unexpected.empty() && of_verb.empty() &&
      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return "no verb is given";
  }
  if (unexpected.empty()) return of_verb + printable_lines(error.what());
  const std::string& first = unexpected.front();
  if (first.starts_with("-")) {
    const std::string name = first.substr(0, first.find('='));
    std::vector<std::string> names = option_names(verb);
    const std::vector<std::string> of_all = option_names(app);
    names.insert(names.end(), of_all.begin(), of_all.end());
    std::erase_if(names, [](const std::string& option) { return !option.starts_with("--"); });
    return with_suggestion(of_verb + "unknown option " + in_quotes(name), name, names);
  }
  if (&verb == &app) {
    std::vector<std::string> verbs;
    for (const CLI::App* known : app.get_subcommands(nullptr)) verbs.push_back(known->get_name());
    return with_suggestion("unknown verb " + in_quotes(first), first, verbs);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) {
    return of_verb + printable_lines(error.what());
  }
  return of_verb + "unexpected argument " + in_quotes(first);
}

}  // namespace dotresize
