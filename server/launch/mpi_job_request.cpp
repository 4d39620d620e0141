#include <fmt/format.h>

#include <cstdint>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "base/errors.h"
#include "base/process/program.h"
#include "base/text/checked_json.h"
#include "job/manifest/mpi_job.h"
#include "server/launch/subcommands.h"

namespace dotresize {
namespace {

using Json = nlohmann::json;

Manifest mpi_job_of(const Json& request) {
  const std::string file = request.at("template").get<std::string>();
  const Manifest base = read_mpi_job_template(file);
  if (!mounts_directory(base, request.at("folder").get<std::string>())) {
    throw InputError((file.empty() ? "the built-in MPIJob" : file) +
                     ": launcher and workers need a volume at the state directory, or above it: "
                     "none has " +
                     request.at("folder").get<std::string>());
  }
  const auto bounded = [&](const char* key, int64_t least, int64_t most) {
    const auto number = request.at(key).get<int64_t>();
    if (least <= number && number <= most) return number;
    throw InputError(fmt::format("the request: {} must be {} to {}", key, least, most));
  };
  MpiJobParts parts;
  request.at("name").get_to(parts.name);
  request.at("labels").get_to(parts.labels);
  parts.ranks = static_cast<int>(bounded("ranks", 1, 65536));
  parts.cpus = static_cast<int>(bounded("cpus", 1, 1024));
  parts.rank_memory = bounded("memory_bytes", 0, int64_t{1} << 50);
  parts.gpus = bounded("gpus_per_rank", 0, 1) > 0;
  // The worker itself is in the template.
  const auto command = request.at("command").get<std::vector<std::string>>();
  if (command.empty()) throw InputError("the request: command is empty");
  parts.arguments.assign(command.begin() + 1, command.end());
  request.at("log").get_to(parts.log);
  return make_mpi_job(base, parts);
}

}  // namespace

int make_mpi_job_of_request() {
  try {
    const std::string text(std::istreambuf_iterator<char>(std::cin), {});
    std::cout << mpi_job_of(parse_json_object(text, "the request")).dump() << std::endl;
    return kExitOk;
  } catch (const InputError& error) {
    std::cerr << error.what() << std::endl;
  } catch (const Json::exception& error) {
    std::cerr << "the request: " << json_fault(error) << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return kExitUnavailable;
  }
  return kExitBadData;
}

}  // namespace dotresize
