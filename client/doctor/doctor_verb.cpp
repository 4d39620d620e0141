#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/text/printable.h"
#include "client/display/json_output.h"
#include "client/doctor/host_checks.h"
#include "client/doctor/worker_checks.h"
#include "client/verbs/verb.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

std::string line_of(const Check& check) {
  return fmt::format("{:<5}  {:<13}  {}{}{}\n", to_string(check.state), check.part,
                     printable(check.text), check.advice.empty() ? "" : "; ",
                     printable(check.advice));
}

nlohmann::ordered_json to_json(const Check& check) {
  return {{"part", check.part},
          {"state", to_string(check.state)},
          {"text", check.text},
          {"advice", check.advice},
          {"needed", check.needed}};
}

/// Collects checks and shows each at once, unless the output is a JSON document.
class Findings {
 public:
  explicit Findings(bool json) : json_(json) {}

  void add(const Check& check) {
    checks_.push_back(check);
    if (!json_) std::cout << line_of(check) << std::flush;
  }

  int finish() const {
    const bool ok = std::ranges::none_of(
        checks_, [](const Check& one) { return one.needed && one.state == Check::kFault; });
    const std::string verdict = !ok ? "jobs cannot run here before these faults are gone"
                                : gpus_have_passed()
                                    ? "jobs can run on the GPUs and on the CPU of this machine"
                                    : "jobs can run on the CPU of this machine";
    if (json_) {
      nlohmann::ordered_json document = {
          {"ok", ok}, {"verdict", verdict}, {"checks", nlohmann::ordered_json::array()}};
      for (const Check& check : checks_) document["checks"].push_back(to_json(check));
      print_json(document);
    } else {
      std::cout << verdict << '\n';
    }
    return ok ? kExitOk : kExitUnavailable;
  }

 private:
  bool gpus_have_passed() const {
    return std::ranges::any_of(checks_, [](const Check& one) {
      return one.part == kGpuSelfTest && one.state == Check::kOk;
    });
  }

  bool json_;
  std::vector<Check> checks_;
};

Check current_directory_check() {
  Check check = directory_check("directory", fs::current_path());
  check.needed = false;  // a job may write elsewhere
  return check;
}

int doctor(bool json) {
  Findings findings(json);
  findings.add(cores_check());
  findings.add(memory_check());
  findings.add(shared_memory_check(kSharedMemory));
  findings.add(directory_check("temporary", fs::temp_directory_path()));
  findings.add(current_directory_check());
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
