#include "client/local/job_manifest.h"

#include "job/manifest/mpi_job.h"
#include "job/manifest/yaml_json.h"

namespace dotresize {
namespace {

constexpr char kJobFile[] = "job.json";

}  // namespace

std::string job_manifest(const PlannedJob& planned, const ManifestRequest& request, bool json) {
  const v1::JobSpec& spec = planned.file.spec;
  const std::string job_file = Manifest::parse(job_spec_to_json(spec)).dump();
  MpiJobParts parts;
  parts.name = mpi_job_name(spec.name(), job_file);
  parts.labels = {{"dotresize.dev/job", parts.name}};
  parts.ranks = planned.plan.job.resources.ranks;
  parts.cpus = request.cpus;
  parts.rank_memory = peak_memory(planned.plan.shards);
  parts.gpus = spec.resources().device() == v1::Resources::cuda;
  parts.arguments = {"--work-dir", "/tmp", std::string(kJobFolder) + "/" + kJobFile};
  parts.config_map = parts.name;
  const Manifest mpi_job = make_mpi_job(read_mpi_job_template(request.template_file), parts);
  Manifest metadata = {{"name", parts.name}};
  for (const char* key : {"namespace", "labels"}) {
    if (mpi_job["metadata"].contains(key)) metadata[key] = mpi_job["metadata"][key];
  }
  const Manifest config_map = {{"apiVersion", "v1"},
                               {"kind", "ConfigMap"},
                               {"metadata", metadata},
                               {"immutable", true},
                               {"data", {{kJobFile, job_file}}}};
  if (!json) return yaml_of_json(config_map) + "---\n" + yaml_of_json(mpi_job);
  const Manifest list = {
      {"apiVersion", "v1"}, {"kind", "List"}, {"items", Manifest::array({config_map, mpi_job})}};
  return list.dump(2) + "\n";
}

}  // namespace dotresize
