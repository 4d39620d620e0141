#include "tests/job/plan/resolve_job.h"

#include <gmock/gmock.h>

#include <functional>

#include "job/plan/resolve/resolve_job.h"

namespace dotresize {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;

TEST_F(ResolveJob, DefaultsAreThoseOfTheProto) {
  const ResolvedJob job = resolve();
  EXPECT_EQ(job.method, method_named("pca_dotresize"));
  EXPECT_EQ(job.schedule, schedule_named("pipeline"));
  EXPECT_EQ(job.widths.largest(), 200);
  EXPECT_EQ(job.maps.lambda, 0.1);
  EXPECT_FALSE(job.maps.accept_nonconvergence);
  EXPECT_FALSE(job.output.overwrite);
  EXPECT_EQ(job.output.dtypes, StoredDtypes{Dtype::kBFloat16});
  EXPECT_EQ(job.resources.compute_dtype, Dtype::kFloat32);
  EXPECT_EQ(job.resources.ranks, 1);
  EXPECT_EQ(job.resources.timeout_s, 600);
  EXPECT_EQ(job.calibration.samples, 128);
  EXPECT_EQ(job.calibration.seqlen, 2048);
  EXPECT_FALSE(job.evaluation);
}

TEST_F(ResolveJob, ASizeAloneIsAllocatedAndAMethodIsFollowed) {
  v1::Method& method = *spec_.mutable_method();
  method.Clear();
  method.set_size(0.8);
  EXPECT_EQ(resolve().method, method_named("slicegpt"));
  EXPECT_TRUE(resolve().target.allocation);
  EXPECT_EQ(resolve().widths.mapped_count, 0);
  for (const std::string more :
       {"name: pca_dotresize", "lambda: 1", "metric: activation", "mlp: {width: 512}"}) {
    text("name: n\nmodel: {path: m}\noutput: {path: o}\nmethod: {size: 0.8, " + more +
         "}\ncalibration: {text: [c.txt]}\n");
    EXPECT_FALSE(resolve().target.allocation) << more;
    EXPECT_EQ(resolve().method, method_named("pca_dotresize")) << more;
  }
  spec_.mutable_method()->Clear();
  spec_.mutable_method()->set_sparsity(0.2);
  EXPECT_FALSE(resolve().target.allocation);
}

TEST_F(ResolveJob, TheLastJunctionKeepsItsWidthUnlessTheHeadIsSliced) {
  const ResolvedJob job = resolve();
  ASSERT_THAT(job.widths.all, SizeIs(13));
  EXPECT_EQ(job.widths.all.back(), 256);
  EXPECT_THAT(job.widths.mapped(), AllOf(SizeIs(12), Each(200)));
  spec_.mutable_method()->set_head(v1::Method::sliced);
  EXPECT_THAT(resolve().widths.all, Each(200));
}

TEST_F(ResolveJob, EveryMethodOfTheProtoHasARow) {
  const auto& names = *v1::Method::Name_descriptor();
  ASSERT_EQ(static_cast<std::size_t>(names.value_count()), kMethods.size());
  for (int i = 0; i < names.value_count(); ++i) {
    spec_.mutable_method()->set_name(static_cast<v1::Method::Name>(names.value(i)->number()));
    EXPECT_EQ(resolve().method.name, names.value(i)->name());
  }
  EXPECT_THROW(method_named("unknown"), std::invalid_argument);
}

TEST_F(ResolveJob, EveryValueOfActivationsButAutoHasASchedule) {
  const auto& values = *v1::Calibration::Activations_descriptor();
  for (int i = 1; i < values.value_count(); ++i) {
    EXPECT_EQ(schedule_for_activations(values.value(i)->name()).activations,
              values.value(i)->name());
  }
  // The first schedule of its activations is taken unless memory is scarce.
  EXPECT_EQ(schedule_for_activations("original").name, "pipeline");
  EXPECT_THROW(schedule_for_activations("auto"), std::invalid_argument);
}

TEST_F(ResolveJob, ABudgetOfTheSpecIsStrongerThanWhatTheHostHas) {
  LaunchFacts launch;
  launch.memory = int64_t{8} << 30;
  EXPECT_EQ(plan_job(spec_, config_, launch).job.resources.memory, int64_t{8} << 30);
  spec_.mutable_resources()->set_memory("3GiB");
  EXPECT_EQ(plan_job(spec_, config_, launch).job.resources.memory, int64_t{3} << 30);
  EXPECT_EQ(resolve().resources.memory, int64_t{3} << 30);
}

TEST_F(ResolveJob, ABudgetThatNobodyGaveIsNotTheJobs) {
  LaunchFacts launch;
  launch.memory = int64_t{1} << 20;
  try {
    plan_job(spec_, config_, launch);
    FAIL() << "was accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("resources.memory: 1.00 MiB of memory a rank, which is "
                                        "what the machine has, is too little: this job needs"));
  }
}

TEST_F(ResolveJob, AnInterruptedRunKeepsItsSchedule) {
  LaunchFacts launch;
  launch.schedule = "layerwise";
  EXPECT_EQ(plan_job(spec_, config_, launch).job.schedule.name, "layerwise");
  launch.schedule = "token_parallel";  // a schedule for other activations
  EXPECT_EQ(plan_job(spec_, config_, launch).job.schedule.name, "pipeline");
  launch.schedule = "layerwise";
  spec_.mutable_resources()->set_memory("1MiB");
  EXPECT_THROW(plan_job(spec_, config_, launch).job, InputError);
}

TEST_F(ResolveJob, ABudgetThatIsTooSmallIsRefusedWithOneThatWouldDo) {
  spec_.mutable_resources()->set_memory("1MiB");
  try {
    resolve();
    FAIL() << "was accepted";
  } catch (const InputError& error) {
    const std::string message = error.what();
    const std::string before = "this job needs at least ";
    ASSERT_THAT(message, testing::StartsWith("resources.memory: 1.00 MiB of memory a rank"));
    const std::size_t begin = message.find(before) + before.size();
    spec_.mutable_resources()->set_memory(
        message.substr(begin, message.find(" with ", begin) - begin));
  }
  EXPECT_NO_THROW(resolve());
}

TEST_F(ResolveJob, AutoActivationsAreOriginalForThePcaMethodsAlone) {
  for (const auto& [method, schedule] : {std::pair(v1::Method::pca_dotresize, "pipeline"),
                                         std::pair(v1::Method::slicegpt, "pipeline"),
                                         std::pair(v1::Method::dotresize, "token_parallel"),
                                         std::pair(v1::Method::magnitude, "token_parallel")}) {
    spec_.mutable_method()->set_name(method);
    EXPECT_EQ(resolve().schedule.name, schedule) << v1::Method::Name_Name(method);
  }
}

TEST_F(ResolveJob, ActivationsCanBeChosen) {
  spec_.mutable_calibration()->set_activations(v1::Calibration::compressed);
  EXPECT_EQ(resolve().schedule, schedule_named("token_parallel"));
  spec_.mutable_method()->set_name(v1::Method::magnitude);
  spec_.mutable_calibration()->set_activations(v1::Calibration::original);
  EXPECT_EQ(resolve().schedule, schedule_named("pipeline"));
}

TEST_F(ResolveJob, AnExplicitWidthIsTakenAsItIs) {
  spec_.mutable_method()->clear_sparsity();
  spec_.mutable_method()->set_width(201);
  EXPECT_EQ(resolve().widths.largest(), 201);
  EXPECT_EQ(resolve().target.sparsity, std::nullopt);
}

TEST_F(ResolveJob, RefusesASparsityThatLeavesNoWidthOrFeature) {
  spec_.mutable_method()->set_round_to(1000);
  EXPECT_THAT(error(), testing::StartsWith("method.sparsity: 0.2"));
  spec_.mutable_method()->clear_sparsity();
  spec_.mutable_method()->set_width(256);
  spec_.mutable_method()->mutable_mlp()->set_sparsity(0.2);
  EXPECT_THAT(error(), testing::StartsWith("method.mlp.sparsity: 0.2"));
}

TEST_F(ResolveJob, ASizeGivesTheWidthOfItsSharingHeadAndDtype) {
  spec_.mutable_method()->clear_sparsity();
  spec_.mutable_method()->set_size(0.8);
  spec_.mutable_method()->set_name(v1::Method::pca_dotresize);
  EXPECT_EQ(resolve().widths.largest(), 184);
  EXPECT_EQ(resolve().target.size, 0.8);
  spec_.mutable_method()->set_head(v1::Method::sliced);
  EXPECT_EQ(resolve().widths.largest(), 192);
  spec_.mutable_method()->set_round_to(20);
  EXPECT_EQ(resolve().widths.largest(), 180);
  spec_.mutable_method()->clear_round_to();
  spec_.mutable_output()->set_format(v1::Output::stock);
  EXPECT_EQ(resolve().widths.largest(), 200);
  set_heads(12);
  EXPECT_EQ(resolve().widths.largest() % 24, 0);
  spec_.mutable_output()->set_dtype(v1::Output::float32);
  EXPECT_EQ(resolve().widths.largest(), 96);
  spec_.mutable_method()->set_size(0.01);
  EXPECT_THAT(error(),
              HasSubstr("method.size: 0.01 is not available: the smallest width, 24, gives"));
}

TEST_F(ResolveJob, AResultThatIsNotSmallerIsRefusedUnlessAllowed) {
  spec_.mutable_output()->set_dtype(v1::Output::float32);
  spec_.mutable_method()->set_sparsity(0.05);
  EXPECT_THAT(error(), testing::StartsWith("method.sparsity: the result, "));
  EXPECT_THAT(error(), HasSubstr("remedies: output.dtype: same, a smaller width, one map for all"));
  EXPECT_THAT(error(), HasSubstr("method.allow_larger: true allows it"));
  spec_.mutable_method()->set_allow_larger(true);
  EXPECT_EQ(resolve().widths.largest(), 240);
  spec_.mutable_method()->clear_allow_larger();
  spec_.mutable_method()->clear_sparsity();
  spec_.mutable_method()->set_width(256);
  EXPECT_THAT(error(), testing::StartsWith("method.width: the result, "));
  spec_.mutable_method()->set_width(128);
  spec_.mutable_output()->set_dtype(v1::Output::float32);
  EXPECT_THAT(error(), HasSubstr("output.dtype: same"));
}

TEST_F(ResolveJob, RoundToIsHonoured) {
  spec_.mutable_method()->set_round_to(32);
  EXPECT_EQ(resolve().widths.largest(), 192);
}

TEST_F(ResolveJob, ASharedMapSeesTheDenseModel) {
  spec_.mutable_method()->set_name(v1::Method::magnitude);
  EXPECT_EQ(resolve().schedule, schedule_named("token_parallel"));
  spec_.mutable_output()->set_format(v1::Output::stock);
  EXPECT_EQ(resolve().schedule, schedule_named("pipeline"));
}

TEST_F(ResolveJob, PredictionsAreComparedUnlessTheJobSaysNo) {
  EXPECT_FALSE(resolve().compares_predictions());  // there is no evaluation
  spec_.mutable_evaluation()->add_text((dir_.path() / "e.txt").string());
  EXPECT_TRUE(resolve().compares_predictions());
  spec_.mutable_evaluation()->set_kl(false);
  EXPECT_FALSE(resolve().compares_predictions());
}

TEST_F(ResolveJob, ASmallerRoundToIsAdvisedOnlyIfItHelps) {
  spec_.mutable_method()->set_sparsity(0.99);
  EXPECT_THAT(error(), HasSubstr("a smaller sparsity, a smaller round_to or an explicit width"));
  spec_.mutable_method()->set_sparsity(0.999);
  EXPECT_THAT(error(), HasSubstr("a smaller sparsity or an explicit width"));
}

TEST_F(ResolveJob, TheSizeThatIsSaidToBePossibleIs) {
  for (const bool stock : {false, true}) {
    spec_.mutable_output()->set_format(stock ? v1::Output::stock : v1::Output::any);
    for (const auto name : {v1::Method::slicegpt, v1::Method::pca_dotresize}) {
      for (const uint32_t round_to : {8, 24, 40}) {
        spec_.mutable_method()->Clear();
        spec_.mutable_method()->set_size(1e-4);
        spec_.mutable_method()->set_round_to(round_to);
        if (name != v1::Method::slicegpt) spec_.mutable_method()->set_name(name);
        const std::string refusal = error();
        const std::size_t end = refusal.find(" of the dense model's bytes");
        ASSERT_NE(end, std::string::npos) << refusal;
        spec_.mutable_method()->set_size(std::stod(refusal.substr(refusal.rfind(' ', end - 1))));
        EXPECT_EQ(error(), "was accepted") << refusal;
      }
    }
  }
}

TEST_F(ResolveJob, RefusesWhatTheModelCannotServe) {
  config_.compressed = true;
  EXPECT_THAT(error(), HasSubstr("model.path: the model is already compressed"));
  config_ = small_llama();
  spec_.mutable_resources()->set_ranks(13);
  EXPECT_THAT(error(), HasSubstr("resources.ranks: 13 is more than the model's 12 sublayers"));
  spec_.mutable_resources()->clear_ranks();
  spec_.mutable_calibration()->set_seqlen(2049);
  EXPECT_THAT(error(), HasSubstr("calibration.seqlen: 2049 is more than the model's max_position"));
  spec_.mutable_calibration()->clear_seqlen();
  spec_.mutable_method()->clear_sparsity();
  spec_.mutable_method()->set_width(257);
  EXPECT_THAT(error(), HasSubstr("method.width: 257 is more than the model's hidden_size, 256"));
  spec_.mutable_method()->clear_width();
  spec_.mutable_method()->set_sparsity(0.999);
  EXPECT_THAT(error(), HasSubstr("method.sparsity: 0.999"));
}

TEST_F(ResolveJob, RefusesFilesThatAreNotThereOrNotFiles) {
  spec_.mutable_calibration()->set_text(0, "/nonexistent.txt");
  EXPECT_EQ(error(), "calibration.text: '/nonexistent.txt': no such file");
  spec_.mutable_calibration()->set_text(0, "/dev/zero");
  EXPECT_EQ(error(), "calibration.text: '/dev/zero' is not a regular file");
  spec_.mutable_calibration()->clear_text();
  spec_.mutable_calibration()->set_tokens(dir_.path().string());
  EXPECT_THAT(error(), HasSubstr("calibration.tokens: "));
}

TEST_F(ResolveJob, ComputesInBfloat16WhereAGpuIsAskedFor) {
  EXPECT_EQ(resolve().resources.device, DeviceKind::kCpu);
  EXPECT_EQ(resolve().resources.gpu_compute_dtype, Dtype::kBFloat16);  // auto
  spec_.mutable_resources()->set_device(v1::Resources::cpu);
  EXPECT_EQ(resolve().resources.gpu_compute_dtype, std::nullopt);
  spec_.mutable_resources()->set_device(v1::Resources::cuda);
  EXPECT_EQ(resolve().resources.device, DeviceKind::kCuda);
  EXPECT_EQ(resolve().resources.compute_dtype, Dtype::kBFloat16);
  spec_.mutable_resources()->set_compute_dtype(v1::ComputeDtype::float32);
  EXPECT_EQ(resolve().resources.compute_dtype, Dtype::kFloat32);
}

TEST_F(ResolveJob, WhatTheLaunchedRanksFoundDecidesWhatTheSpecLeavesOpen) {
  spec_.mutable_resources()->set_ranks(4);
  const auto launched = [&](const LaunchFacts& launch) {
    return plan_job(spec_, config_, launch).job;
  };
  ResolvedJob job = launched({.ranks = 2, .devices = {DeviceKind::kCpu, 0}});
  EXPECT_EQ(job.resources.ranks, 2);
  EXPECT_EQ(job.resources.device, DeviceKind::kCpu);
  EXPECT_EQ(job.resources.compute_dtype, Dtype::kFloat32);
  EXPECT_EQ(job.resources.gpu_compute_dtype, std::nullopt);
  job = launched({.ranks = 2, .devices = {DeviceKind::kCuda, 80}});
  EXPECT_EQ(job.resources.device, DeviceKind::kCuda);
  EXPECT_EQ(job.resources.compute_dtype, Dtype::kBFloat16);
  EXPECT_EQ(job.resources.gpu_compute_dtype, Dtype::kBFloat16);
  EXPECT_EQ(launched({.devices = {DeviceKind::kCuda, 75}}).resources.compute_dtype,
            Dtype::kFloat16);
  spec_.mutable_resources()->set_compute_dtype(v1::ComputeDtype::float32);
  EXPECT_EQ(launched({.devices = {DeviceKind::kCuda, 90}}).resources.compute_dtype,
            Dtype::kFloat32);
  EXPECT_THROW(launched({.ranks = 13}), InputError);
}

TEST_F(ResolveJob, RefusesAnOutputThatReachesIntoTheModelThroughALink) {
  std::filesystem::create_directory_symlink(dir_.path() / "m", dir_.path() / "link");
  spec_.mutable_output()->set_path((dir_.path() / "link" / "o").string());
  EXPECT_THAT(error(), HasSubstr("lies in model.path"));
}

TEST_F(ResolveJob, RefusesInputsThatTheOutputWouldReplace) {
  std::filesystem::create_directory(dir_.path() / "o");
  spec_.mutable_evaluation()->add_text(dir_.write("o/e.txt", "").string());
  EXPECT_THAT(error(),
              testing::AllOf(HasSubstr("evaluation.text: "), HasSubstr("lies in output.path")));
}

TEST_F(ResolveJob, TheMetricOfTheLossSeesTheDenseModelInAPipeline) {
  text(
      "name: n\nmodel: {path: m}\noutput: {path: o}\n"
      "method: {name: magnitude, sparsity: 0.2, metric: fisher}\n"
      "calibration: {text: [c.txt]}\n");
  const ResolvedJob job = resolve();
  EXPECT_EQ(job.schedule, schedule_named("pipeline"));
  EXPECT_EQ(job.maps.metric, Metric::kFisher);
  EXPECT_FALSE(job.oblique_maps());
  spec_.mutable_method()->set_name(v1::Method::slicegpt);
  EXPECT_TRUE(resolve().oblique_maps());
}

TEST_F(ResolveJob, KeptStatisticsAreThoseOfTheDenseModelInAPipeline) {
  spec_.mutable_method()->set_name(v1::Method::magnitude);
  v1::Statistics& statistics = *spec_.mutable_calibration()->mutable_statistics();
  statistics.set_use("/s");
  EXPECT_EQ(resolve().schedule, schedule_named("pipeline"));
  EXPECT_EQ(summed_junctions(config_, resolve()), 12);
  statistics.clear_use();
  statistics.set_save("/s");
  EXPECT_EQ(summed_junctions(config_, resolve()), 13);  // with the last one, for other heads
  statistics.set_save(spec_.output().path() + "/s");
  EXPECT_THAT(error(), HasSubstr("calibration.statistics.save"));
  statistics.set_save(dir_.path());
  EXPECT_THAT(error(), HasSubstr("lies in calibration.statistics.save"));
}

TEST_F(ResolveJob, GradientsAreComputedInFloat16WhereThereIsNoBfloat16) {
  text(
      "name: n\nmodel: {path: m}\noutput: {path: o}\n"
      "method: {name: slicegpt, sparsity: 0.2, metric: fisher}\n"
      "calibration: {text: [c.txt]}\nresources: {compute_dtype: float16}\n");
  EXPECT_EQ(resolve().resources.gpu_compute_dtype, Dtype::kFloat16);
  spec_.mutable_resources()->clear_compute_dtype();
  const LaunchFacts v100{.ranks = 1, .devices = {DeviceKind::kCuda, 70}};
  EXPECT_EQ(plan_job(spec_, config_, v100).job.resources.compute_dtype, Dtype::kFloat16);
}

}  // namespace
}  // namespace dotresize
