#include "job/manifest/mpi_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "tests/job/model/test_configs.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kGibibyte = int64_t{1} << 30;

MpiJobParts parts_of(int ranks) {
  MpiJobParts parts;
  parts.name = "dotresize-j-1-1";
  parts.labels = {{"dotresize.dev/job", "j-1"}};
  parts.ranks = ranks;
  parts.cpus = 4;
  parts.rank_memory = 2 * kGibibyte;
  parts.arguments = {"--attempt", "/a b.json", "/job.json"};
  return parts;
}

Manifest made(const MpiJobParts& parts) { return make_mpi_job(read_mpi_job_template(""), parts); }

const Manifest& pod(const Manifest& job, const char* kind) {
  return job.at("spec").at("mpiReplicaSpecs").at(kind).at("template");
}

const Manifest& container(const Manifest& job, const char* kind) {
  return pod(job, kind).at("spec").at("containers").at(0);
}

TEST(MpiJob, RanksAreSpreadEvenlyOverAsFewPodsAsTheyNeed) {
  const auto pods = [](int ranks) {
    const Manifest job = made(parts_of(ranks));
    const Manifest& spec = job.at("spec");
    return std::vector<int>{spec.at("mpiReplicaSpecs").at("Worker").at("replicas").get<int>(),
                            spec.at("slotsPerWorker").get<int>()};
  };
  EXPECT_THAT(pods(1), ElementsAre(1, 1));
  EXPECT_THAT(pods(8), ElementsAre(1, 8));
  EXPECT_THAT(pods(10), ElementsAre(2, 5));
  EXPECT_THAT(pods(17), ElementsAre(3, 6));
}

TEST(MpiJob, APodHasTheMemoryProcessorsAndGpusOfItsRanks) {
  MpiJobParts parts = parts_of(16);
  parts.gpus = true;
  const Manifest job = made(parts);
  const Manifest& resources = container(job, "Worker").at("resources");
  EXPECT_EQ(resources.at("requests").at("cpu"), "32");
  EXPECT_EQ(resources.at("requests").at("memory"), "18432Mi");  // 8 x (2 GiB + 256 MiB)
  EXPECT_EQ(resources.at("limits").at("memory"), "18432Mi");
  EXPECT_EQ(resources.at("limits").at("nvidia.com/gpu"), 8);
  const Manifest without = made(parts_of(16));
  EXPECT_FALSE(
      container(without, "Worker").at("resources").at("limits").contains("nvidia.com/gpu"));
}

TEST(MpiJob, CommandIsMpirunWithTheRanksThenWhatTheWorkerIsTold) {
  MpiJobParts parts = parts_of(2);
  EXPECT_EQ(container(made(parts), "Launcher").at("command"),
            Manifest({"mpirun", "-np", "2", "-x", "OMP_NUM_THREADS=4", "--bind-to", "none", "-x",
                      "GOMP_SPINCOUNT=1000", "-x", "DOTRESIZE_PYTHON", "dotresize-worker",
                      "--attempt", "/a b.json", "/job.json"}));
  parts.log = "/state/a log";
  const Manifest job = made(parts);
  const Manifest& command = container(job, "Launcher").at("command");
  EXPECT_EQ(command.at(0), "sh");
  EXPECT_EQ(command.at(2).get<std::string>().find("log"), std::string::npos);
  EXPECT_EQ(command.at(3), "/state/a log");
  EXPECT_EQ(command.at(4), "mpirun");
}

TEST(MpiJob, AnAttemptIsStartedOnceAndLabelled) {
  const Manifest job = made(parts_of(2));
  EXPECT_EQ(job.at("metadata").at("name"), "dotresize-j-1-1");
  EXPECT_EQ(job.at("spec").at("runPolicy").at("backoffLimit"), 0);
  EXPECT_EQ(job.at("spec").at("runPolicy").at("cleanPodPolicy"), "Running");
  for (const char* kind : {"Launcher", "Worker"}) {
    EXPECT_EQ(job.at("spec").at("mpiReplicaSpecs").at(kind).at("restartPolicy"), "Never");
    EXPECT_EQ(pod(job, kind).at("metadata").at("labels").at("dotresize.dev/job"), "j-1");
    const Manifest& confined = container(job, kind).at("securityContext");
    EXPECT_EQ(confined.at("allowPrivilegeEscalation"), false);
    EXPECT_EQ(confined.at("capabilities").at("drop"), Manifest::array({"ALL"}));
    EXPECT_EQ(pod(job, kind).at("spec").at("securityContext").at("runAsNonRoot"), true);
  }
}

TEST(MpiJob, TemplateIntoWhichNoJobCanBePutIsRefusedByKey) {
  const TemporaryDirectory home;
  const std::string good = yaml_of_json(read_mpi_job_template(""));
  const auto fault = [&](const std::string& from, const std::string& to) -> std::string {
    home.write("template.yaml", with(good, from, to));
    try {
      read_mpi_job_template(home / "template.yaml");
      return "";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("template.yaml"));
      return error.what();
    }
  };
  EXPECT_EQ(fault("MPIJob", "MPIJob"), "");
  EXPECT_THAT(fault("MPIJob", "TFJob"), HasSubstr("is not an MPIJob"));
  EXPECT_THAT(fault("slotsPerWorker: 8", "slotsPerWorker: 0"), HasSubstr("/spec/slotsPerWorker"));
  EXPECT_THAT(fault("slotsPerWorker: 8", "slotsPerWorker: many"),
              HasSubstr("a value has another type"));
  EXPECT_THAT(fault("mpiImplementation: OpenMPI", "mpiImplementation: Intel"),
              HasSubstr("/spec/mpiImplementation"));
  EXPECT_THAT(fault("spec:\n", "spec:\n  runLauncherAsWorker: true\n"),
              HasSubstr("/spec/runLauncherAsWorker"));
  EXPECT_THAT(fault("command: [mpirun", "args: [mpirun"),
              HasSubstr("/spec/mpiReplicaSpecs/Launcher/template/spec/containers/0/command"));
  EXPECT_THAT(fault("    Worker:", "    Workers:"), HasSubstr("Worker/template/spec/containers/0"));
  EXPECT_THAT(fault("replicas: 1", "replicas: 1\n      replicas: 1"), HasSubstr("given twice"));
}

TEST(MpiJob, VolumesThatHoldADirectoryAreFound) {
  const Manifest base = read_mpi_job_template("");
  EXPECT_TRUE(mounts_directory(base, "/shared"));
  EXPECT_TRUE(mounts_directory(base, "/shared/state"));
  EXPECT_FALSE(mounts_directory(base, "/shared2"));
  EXPECT_FALSE(mounts_directory(base, "/"));
  EXPECT_FALSE(mounts_directory(base, "/dev/shm")) << "the launcher has none there";
}

TEST(MpiJob, NameIsALabelOfDns) {
  EXPECT_THAT(mpi_job_name("Llama 3.1 (70B)", "x"),
              testing::MatchesRegex("dotresize-llama-3-1-70b-[0-9a-f]{8}"));
  EXPECT_THAT(mpi_job_name("\xc3\xa9", "x"), testing::MatchesRegex("dotresize-[0-9a-f]{8}"));
  EXPECT_LE(mpi_job_name(std::string(100, 'a'), "x").size(), 43u);
  EXPECT_NE(mpi_job_name("a", "x"), mpi_job_name("a", "y"));
}

TEST(Yaml, WhatIsReadAndWrittenIsTheSame) {
  const Manifest document = {{"text", "a: b # c"},
                             {"number", "16"},
                             {"word", "yes"},
                             {"dashes", {"-np", "--", "-", "---"}},
                             {"lines", "a\nb\t\x01"},
                             {"empty", ""},
                             {"json", "{\"a\": 'b'}"},
                             {"integer", 16},
                             {"half", 0.5},
                             {"none", nullptr},
                             {"off", false},
                             {"list", Manifest::array({{{"a", 1}}})},
                             {"nothing", Manifest::object()}};
  EXPECT_EQ(json_of_yaml(yaml_of_json(document), "it"), document) << yaml_of_json(document);
  EXPECT_EQ(json_of_yaml("a: 0644\nb: 1Gi\nc: '1'\n", "it"),
            Manifest({{"a", 420}, {"b", "1Gi"}, {"c", "1"}}));
}

TEST(Yaml, AliasesWithoutEndAreRefused) {
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string before = std::to_string(i - 1);
    const std::string name = std::to_string(i);
    bomb += "a" + name + ": &a" + name + " [*a" + before + ", *a" + before + "]\n";
  }
  EXPECT_THROW(json_of_yaml(bomb, "it"), InputError);
  EXPECT_THROW(json_of_yaml("a: &a [*a]\n", "it"), InputError);
}

}  // namespace
}  // namespace dotresize
