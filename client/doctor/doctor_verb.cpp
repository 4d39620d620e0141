#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/text/printable.h"
#include "client/doctor/checks.h"
#include "client/verbs/verb.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

const char* name_of(Check::State state) {
  if (state == Check::kOk) return "ok";
  return state == Check::kNote ? "note" : "fault";
}

/// Collects checks and shows each at once, unless the output is a JSON document.
struct Findings {
  const bool json;
  std::vector<Check> checks = {};

  void add(const Check& check) {
    checks.push_back(check);
    if (json) return;
    std::cout << fmt::format("{:<5}  {:<13}  {}{}{}\n", name_of(check.state), check.part,
                             printable(check.text), check.advice.empty() ? "" : "; ",
                             printable(check.advice))
              << std::flush;
  }

  /// Shows the verdict. Returns the exit code.
  int finish() const {
    const bool ok = std::ranges::none_of(
        checks, [](const Check& one) { return one.needed && one.state == Check::kFault; });
    const bool gpus_have_passed = std::ranges::any_of(checks, [](const Check& one) {
      return one.part == kGpuSelfTest && one.state == Check::kOk;
    });
    const std::string verdict = !ok ? "jobs cannot run here until these faults are mended"
                                : gpus_have_passed
                                    ? "jobs can run on the GPUs and on the CPU of this machine"
                                    : "jobs can run on the CPU of this machine";
    if (json) {
      nlohmann::ordered_json document = {
          {"ok", ok}, {"verdict", verdict}, {"checks", nlohmann::ordered_json::array()}};
      for (const Check& check : checks) {
        document["checks"].push_back({{"part", check.part},
                                      {"state", name_of(check.state)},
                                      {"text", check.text},
                                      {"advice", check.advice},
                                      {"needed", check.needed}});
      }
      print_json(document);
    } else {
      std::cout << verdict << '\n';
    }
    return ok ? kExitOk : kExitUnavailable;
  }
};

int doctor(bool json) {
  Findings findings{json};
  findings.add(cores_check());
  findings.add(memory_check());
  findings.add(shared_memory_check(kSharedMemory));
  findings.add(directory_check("temporary", fs::temp_directory_path()));
  Check directory = directory_check("directory", fs::current_path());
  directory.needed = false;  // a job may write elsewhere
  findings.add(directory);
  const Check worker = worker_check();
  findings.add(worker);
  if (worker.state == Check::kOk) {
    findings.add(mpi_check());
    for (const Check& check : probe_checks()) findings.add(check);
  }
  return findings.finish();
}

}  // namespace

Verb add_doctor_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command = *app.add_subcommand(
      "doctor", "Check that this machine can run jobs, and say what to do if it cannot");
  add_output_option(command, common);
  command.group("Without a server");
  command.footer(
      "Examples:\n"
      "  dotresize doctor\n"
      "  dotresize doctor -o json\n");
  return {&command, [&common] { return doctor(common.json()); }};
}

}  // namespace dotresize
