#include "server/launch/mpi_job_request.h"

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "base/errors.h"
#include "base/process/program.h"
#include "base/text/checked_json.h"
#include "job/manifest/mpi_job.h"

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
  MpiJobParts parts;
  request.at("name").get_to(parts.name);
  request.at("labels").get_to(parts.labels);
  request.at("ranks").get_to(parts.ranks);
  request.at("cpus").get_to(parts.cpus);
  request.at("memory_bytes").get_to(parts.rank_memory);
  parts.gpus = request.at("gpus_per_rank").get<int>() > 0;
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
  }
  return kExitBadData;
}

}  // namespace dotresize
