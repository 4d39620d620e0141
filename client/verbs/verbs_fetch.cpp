// The verb fetch: fetches the files of an ended job over the API.
#include <iostream>
#include <memory>

#include "base/process/program.h"
#include "base/text/human_text.h"
#include "client/calls/fetch.h"
#include "client/display/progress_display.h"
#include "client/verbs/verb.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

void print_fetched(const FetchRequest& request, const std::vector<v1::Artifact>& artifacts,
                   const CommonOptions& common) {
  int64_t bytes = 0;
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const v1::Artifact& artifact : artifacts) {
    bytes += artifact.size();
    files.push_back(
        {{"name", artifact.name()}, {"size", artifact.size()}, {"sha256", artifact.sha256()}});
  }
  if (common.json()) {
    print_json({{"id", request.id},
                {"directory", fs::absolute(request.dir).string()},
                {"files", std::move(files)}});
  } else {
    std::cout << counted(std::ssize(artifacts), "file") << ", " << human_bytes(bytes) << ", in "
              << request.dir.string() << "\n";
  }
}

int fetch(FetchRequest request, const CommonOptions& common) {
  if (request.dir.filename().empty()) request.dir = request.dir.parent_path();  // "out/"
  Connection connection = common.connect();
  request.id = find_job_id(connection, request.id);
  v1::ListArtifactsRequest wanted;
  wanted.set_id(request.id);
  wanted.set_model(request.model);
  constexpr std::chrono::seconds kHashingDeadline{60};
  const auto listed = connection.call(&v1::Jobs::Stub::ListArtifacts, wanted, kHashingDeadline);
  const std::vector<v1::Artifact> artifacts(listed.artifacts().begin(), listed.artifacts().end());
  bool done = false;
  {
    const InterruptGuard guard;
    const std::unique_ptr<ProgressDisplay> display = progress_display();
    done = fetch_artifacts(connection, request, artifacts, *display,
                           [&guard] { return guard.interrupted(); });
  }
  if (!done) {
    std::cerr << "stopped fetching; the same command goes on where it was\n";
    return kExitInterrupted;
  }
  print_fetched(request, artifacts, common);
  return kExitOk;
}

}  // namespace

Verb add_fetch_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      add_server_verb(app, common, "fetch",
                      "Fetch what an ended job has left: report, model card, log; or its model",
                      "  dotresize fetch j-451f3da65440ea8f results\n"
                      "  dotresize fetch j-451f3da65440ea8f models/docs-llama-80 --model\n");
  auto request = std::make_shared<FetchRequest>();
  command
      .add_option("ID", request->id, "The job, as submit and list print it, or how its id begins")
      ->required()
      ->type_name("");
  command.add_option("DIR", request->dir, "Directory to make")->required()->type_name("");
  command.add_flag("--model", request->model,
                   "The model's directory, as the job has made it; the server must allow it");
  return {&command, [request, &common] { return fetch(*request, common); }};
}

}  // namespace dotresize
