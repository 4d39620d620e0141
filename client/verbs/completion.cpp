#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "base/process/program.h"
#include "client/verbs/verb.h"

namespace dotresize {
namespace {

std::string options_of(const CLI::App& app) {
  std::string words;
  for (const std::string& name : option_names(app)) words += " " + name;
  return words;
}

constexpr char kBash[] = R"(# Completes dotresize in bash. Made by `dotresize completion`.
_dotresize() {{
  local word verb= words=
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$word" in
{verb_cases}    esac
  done
  COMPREPLY=()
  case "$verb" in
    '') words="{verbs}{global_options}" ;;
{option_cases}  esac
  case "${{COMP_WORDS[COMP_CWORD-1]}}" in
    -o|--output) words='text json' ;;
  esac
  case "$verb:${{COMP_WORDS[COMP_CWORD]}}" in
    *:-*) ;;
{job_cases}  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o bashdefault -o default -F _dotresize dotresize
)";

constexpr char kZsh[] = R"(#compdef dotresize
autoload -U +X bashcompinit && bashcompinit
)";

/// Shell code for the ids of the newest jobs; empty if no server answers.
constexpr char kJobs[] = R"($(dotresize list --limit 50 2>/dev/null | awk 'NR > 1 { print $1 }'))";

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  std::string verbs, verb_cases, option_cases, job_cases;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    const std::string& name = verb->get_name();
    verbs += (verbs.empty() ? "" : " ") + name;
    option_cases += fmt::format("    {}) words=\"{}\" ;;\n", name, options_of(*verb));
    const bool takes_jobs = std::ranges::any_of(verb->get_options(), [](const CLI::Option* option) {
      return option->get_positional() && option->get_name(true).starts_with("ID");
    });
    if (takes_jobs) {
      job_cases += fmt::format("    {}:*) words=\"$words {}\" ;;\n", name, kJobs);
    }
  }
  std::string alternatives = verbs;
  std::ranges::replace(alternatives, ' ', '|');
  verb_cases = fmt::format("      {}) verb=$word; break ;;\n", alternatives);
  const std::string script =
      fmt::format(kBash, fmt::arg("verb_cases", verb_cases), fmt::arg("verbs", verbs),
                  fmt::arg("global_options", options_of(app)),
                  fmt::arg("option_cases", option_cases), fmt::arg("job_cases", job_cases));
  return shell == "zsh" ? kZsh + script : script;
}

Verb add_completion_verb(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("completion", "Print a completion script for a shell");
  auto shell = std::make_shared<std::string>();
  add_argument(command, "SHELL", *shell, "bash or zsh")
      ->check(CLI::IsMember({"bash", "zsh"}).description(""));
  command.group("Without a server");
  command.footer(
      "Examples:\n"
      "  source <(dotresize completion bash)\n"
      "  dotresize completion zsh > ~/.zfunc/_dotresize\n");
  return {&command, [&app, shell] {
            std::cout << completion_script(app, *shell) << std::flush;
            return kExitOk;
          }};
}

}  // namespace dotresize
