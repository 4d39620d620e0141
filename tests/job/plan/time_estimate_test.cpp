#include <gmock/gmock.h>

#include <functional>

#include "base/files/input_file.h"
#include "job/model/model_size.h"
#include "job/model/read_model_config.h"
#include "job/plan/estimate/estimates.h"
#include "job/plan/estimate/hardware.h"
#include "job/plan/estimate/job_time.h"
#include "job/plan/resolve/resolve_job.h"
#include "job/plan/shards/shard_plan.h"
#include "tests/job/model/test_configs.h"
#include "tests/job/plan/resolve_job.h"
#include "tests/job/spec/hardware_text.h"

namespace dotresize {
namespace {

v1::Hardware plain_cpu() { return parse_hardware(kPlainCpu, "hw.yaml"); }

TimeEstimate estimate(const ResolvedJob& job, const v1::Hardware& hardware = plain_cpu()) {
  return estimate_time(small_llama(), job, make_shard_plan(small_llama(), job), hardware);
}

/// Returns the seconds of a phase; 0 if it is absent.
double seconds(const TimeEstimate& time, const std::string& phase) {
  for (const TimeEstimate::Phase& found : time.phases) {
    if (found.name == phase) return found.seconds;
  }
  return 0.0;
}

ResolvedJob job_of(int ranks, const char* schedule, const char* method) {
  ResolvedJob job = small_job(small_llama(), ranks);
  job.schedule = schedule_named(schedule);
  job.method = method_named(method);
  return job;
}

/// Returns a job for each schedule, method and number of ranks tested.
std::vector<ResolvedJob> all_jobs() {
  std::vector<ResolvedJob> jobs;
  for (const Schedule& schedule : schedules()) {
    for (const Method& method : kMethods) {
      for (const int ranks : {1, 2, 5, 12}) {
        jobs.push_back(job_of(ranks, schedule.name.data(), method.name.data()));
      }
    }
  }
  return jobs;
}

std::string name_of(const ResolvedJob& job) {
  return std::string(job.schedule.name) + " " + std::string(job.method.name) + " " +
         std::to_string(job.resources.ranks);
}

void scale_rates(google::protobuf::Message& message, double factor) {
  const auto& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      scale_rates(*reflection.MutableMessage(&message, field), factor);
    } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_DOUBLE) {
      reflection.SetDouble(&message, field, factor * reflection.GetDouble(message, field));
    }
  }
}

/// Seconds that the progress of a job counts.
double seconds_of_progress(const TimeEstimate::Steps& steps) {
  return steps.check + steps.evaluate_dense + steps.tokens + steps.cuts + steps.junctions +
         steps.sublayers + steps.heal + steps.evaluate_compressed + steps.hash;
}

TEST(TimeEstimate, ProgressCountsAllOfIt) {
  for (const ResolvedJob& job : all_jobs()) {
    const TimeEstimate time = estimate(job);
    EXPECT_NEAR(seconds_of_progress(time.steps), time.total(), 1e-9 * time.total()) << name_of(job);
  }
}

TEST(TimeEstimate, OfGradientsIsThatOfTwoMorePassesAndTheHead) {
  ResolvedJob job = job_of(1, "pipeline", "slicegpt");
  const TimeEstimate without = estimate(job);
  EXPECT_EQ(seconds(without, "backward"), 0.0);
  job.maps.metric = Metric::kFisher;
  const TimeEstimate with = estimate(job);
  EXPECT_GT(seconds(with, "backward"), 2.0 * seconds(without, "forward"));
  EXPECT_LT(seconds(with, "backward"), 3.5 * seconds(without, "forward"));
  EXPECT_GT(seconds(with, "gram"), 1.9 * seconds(without, "gram"));
  EXPECT_GT(with.steps.tokens, without.steps.tokens + seconds(with, "backward"));
}

TEST(TimeEstimate, TwiceTheRatesTakeHalfTheTime) {
  v1::Hardware twice = plain_cpu();
  scale_rates(twice, 2.0);
  for (const ResolvedJob& job : all_jobs()) {
    const TimeEstimate once = estimate(job);
    ASSERT_GT(once.total(), 0.0) << name_of(job);
    EXPECT_NEAR(estimate(job, twice).total() / once.total(), 0.5, 1e-9) << name_of(job);
  }
}

TEST(TimeEstimate, TwiceTheTokensCostMoreButNotTwice) {
  for (ResolvedJob job : all_jobs()) {
    const TimeEstimate once = estimate(job);
    *job.calibration.samples *= 2;
    const TimeEstimate twice = estimate(job);
    EXPECT_GT(twice.total(), once.total()) << name_of(job);
    EXPECT_LT(twice.total(), 2.0 * once.total()) << name_of(job);
    // Ranks get whole microbatches, and half of them divide less evenly.
    EXPECT_LE(seconds(twice, "gram"), (2.0 + 1e-9) * seconds(once, "gram")) << name_of(job);
    EXPECT_GE(seconds(twice, "gram"), 1.8 * seconds(once, "gram")) << name_of(job);
    EXPECT_DOUBLE_EQ(seconds(twice, "eigen"), seconds(once, "eigen")) << name_of(job);
  }
}

TEST(TimeEstimate, EverySlowerPartMakesTheJobSlower) {
  const ResolvedJob job = job_of(3, "token_parallel", "pca_dotresize");
  const double before = estimate(job).total();
  const std::vector<std::pair<const char*, std::function<void(v1::Hardware&)>>> changes = {
      {"float64", [](auto& hw) { hw.mutable_gemm()->set_float64(5e8); }},
      {"float32", [](auto& hw) { hw.mutable_gemm()->set_float32(5e8); }},
      {"attention", [](auto& hw) { hw.set_attention(5e8); }},
      {"memory", [](auto& hw) { hw.set_memory(5e8); }},
      {"l1_cost", [](auto& hw) { hw.set_l1_cost(5e8); }},
      {"eigen", [](auto& hw) { hw.set_eigen(5e8); }},
      {"qr", [](auto& hw) { hw.set_qr(5e8); }},
      {"sinkhorn", [](auto& hw) { hw.set_sinkhorn(5e8); }},
      {"link", [](auto& hw) { hw.set_link(5e8); }},
      {"read", [](auto& hw) { hw.mutable_disk()->set_read(5e8); }},
      {"hash", [](auto& hw) { hw.set_hash(5e8); }},
  };
  for (const auto& [name, change] : changes) {
    v1::Hardware slower = plain_cpu();
    change(slower);
    EXPECT_GT(estimate(job, slower).total(), before) << name;
  }
}

TEST(TimeEstimate, AGpuIsFedAndItsRatesCount) {
  ResolvedJob job = small_job(small_llama(), 2);
  job.resources.device = DeviceKind::kCuda;
  job.resources.compute_dtype = Dtype::kFloat16;
  v1::Hardware hardware = parse_hardware(kPlainGpu, "hw.yaml");
  const double before = estimate(job, hardware).total();
  hardware.mutable_host()->set_to_device(5e8);
  const double fed_slowly = estimate(job, hardware).total();
  EXPECT_GT(fed_slowly, before);
  hardware.mutable_gemm()->set_float16(5e8);
  EXPECT_GT(estimate(job, hardware).total(), fed_slowly);
}

TEST(TimeEstimate, PhasesAreCountedByHand) {
  // 128 x 256 tokens, d = 256, k = 200, 12 mapped junctions, on one rank with 1e9 for all rates.
  const TimeEstimate time = estimate(job_of(1, "pipeline", "pca_dotresize"));
  const double n = 128.0 * 256.0;
  const double d = 256.0;
  EXPECT_NEAR(seconds(time, "eigen"), 12 * 20 * d * d * d / 1e9, 1e-9);
  EXPECT_NEAR(seconds(time, "cost"), 12 * n * d * d / 2 / 1e9, 1e-9);
  EXPECT_NEAR(seconds(time, "rotate"), 12 * 2 * n * d * d / 1e9, 1e-9);
  EXPECT_NEAR(seconds(time, "qr"), 12 * 2 * d * 200 * 200 / 1e9, 1e-9);
  const int64_t written = stored_parameters(small_llama()) * 2;
  EXPECT_GT(seconds(time, "hash"), 1.5 * static_cast<double>(written) / 1e9);
  EXPECT_LT(seconds(time, "hash"), 2.0 * static_cast<double>(written) / 1e9);
}

TEST(TimeEstimate, TheForwardPassesAreThoseOfTheMethod) {
  const double one = seconds(estimate(job_of(1, "pipeline", "slicegpt")), "forward");
  EXPECT_NEAR(seconds(estimate(job_of(1, "pipeline", "pca_dotresize")), "forward"), 2 * one, 1e-9);
  // 11 sublayers run: nothing reads the last one's output.
  double operations = 0.0;
  const double n = 128.0 * 256.0;
  for (int64_t s = 0; s < 11; ++s) {
    operations += 2.0 * n * static_cast<double>(active_parameters(small_llama(), s));
  }
  EXPECT_GT(one, operations / 1e9);
  EXPECT_LT(one, 2.0 * operations / 1e9);
}

TEST(TimeEstimate, GroupsOfJunctionsHavePassesOfTheirOwn) {
  const ResolvedJob job = job_of(2, "pipeline", "pca_dotresize");
  ShardPlan plan = make_shard_plan(small_llama(), job);
  const TimeEstimate one = estimate_time(small_llama(), job, plan, plain_cpu());
  plan.junction_groups = 3;
  const TimeEstimate three = estimate_time(small_llama(), job, plan, plain_cpu());
  EXPECT_NEAR(seconds(three, "forward"), 3 * seconds(one, "forward"), 1e-9);
  for (const char* phase : {"gram", "rotate", "cost", "eigen", "qr"}) {
    EXPECT_DOUBLE_EQ(seconds(three, phase), seconds(one, phase)) << phase;
  }
}

TEST(TimeEstimate, LayersOfTheDenseModelAreNotMultipliedByMaps) {
  const double layerwise = seconds(estimate(job_of(1, "layerwise", "pca_dotresize")), "forward");
  const double compressed =
      seconds(estimate(job_of(1, "token_parallel", "pca_dotresize")), "forward");
  EXPECT_GT(compressed, layerwise);
  // One pass serves both kinds of moments.
  EXPECT_NEAR(seconds(estimate(job_of(1, "pipeline", "pca_dotresize")), "forward"), 2 * layerwise,
              1e-9);
}

TEST(TimeEstimate, AGpuHidesWhatOnlyTheReportWantsToKnow) {
  v1::Hardware gpu = parse_hardware(kPlainGpu, "hw.yaml");
  for (const Schedule& schedule : schedules()) {
    ResolvedJob job = job_of(1, schedule.name.data(), "pca_dotresize");
    EXPECT_GT(seconds(estimate(job), "describe"), 0.0);
    job.resources.device = DeviceKind::kCuda;
    job.resources.compute_dtype = Dtype::kFloat16;
    EXPECT_EQ(seconds(estimate(job, gpu), "describe"), 0.0) << schedule.name;
  }
  gpu.mutable_host()->set_memory(1e6);
  ResolvedJob job = job_of(1, "pipeline", "pca_dotresize");
  job.resources.device = DeviceKind::kCuda;
  job.resources.compute_dtype = Dtype::kFloat16;
  EXPECT_GT(seconds(estimate(job, gpu), "describe"), 0.0);
}

TEST(TimeEstimate, RanksOfLayersDecomposeSideBySide) {
  const v1::Hardware gpu = parse_hardware(kPlainGpu, "hw.yaml");
  ResolvedJob job = job_of(4, "layerwise", "pca_dotresize");
  job.resources.device = DeviceKind::kCuda;
  job.resources.compute_dtype = Dtype::kFloat16;
  ShardPlan plan = make_shard_plan(small_llama(), job);
  const TimeEstimate together = estimate_time(small_llama(), job, plan, gpu);
  for (RankShard& shard : plan.ranks) shard.solved_together = 1;
  const TimeEstimate alone = estimate_time(small_llama(), job, plan, gpu);
  double solving = 0.0;
  for (const char* phase : {"eigen", "sinkhorn", "qr", "solve", "gram"}) {
    EXPECT_NEAR(seconds(together, phase), seconds(alone, phase), 1e-12) << phase;
    if (std::string_view(phase) != "gram") solving += seconds(alone, phase);
  }
  // Three of four ranks wait for the fourth one.
  EXPECT_NEAR(seconds(alone, "communicate") - seconds(together, "communicate"), 3.0 * solving,
              1e-9);
}

TEST(TimeEstimate, SingularValuesHaveARateOfTheirOwn) {
  v1::Hardware cpu = plain_cpu();
  const ResolvedJob job = job_of(1, "pipeline", "pca_dotresize");
  const TimeEstimate fast = estimate(job, cpu);
  cpu.set_svd(1e8);
  const TimeEstimate slow = estimate(job, cpu);
  EXPECT_GT(seconds(slow, "align"), 1.5 * seconds(fast, "align"));
  EXPECT_EQ(seconds(slow, "eigen"), seconds(fast, "eigen"));
}

TEST(TimeEstimate, MethodsHaveTheirOwnPhases) {
  const TimeEstimate magnitude = estimate(job_of(2, "pipeline", "magnitude"));
  for (const char* phase : {"sinkhorn", "qr", "eigen", "cost", "rotate"}) {
    EXPECT_EQ(seconds(magnitude, phase), 0.0) << phase;
  }
  EXPECT_GT(seconds(magnitude, "describe"), 0.0);
  const TimeEstimate dotresize = estimate(job_of(2, "pipeline", "dotresize"));
  EXPECT_GT(seconds(dotresize, "cost"), 0.0);
  EXPECT_EQ(seconds(dotresize, "rotate"), 0.0);
}

TEST(TimeEstimate, WithoutAnEvaluationThereIsNone) {
  ResolvedJob job = job_of(2, "pipeline", "pca_dotresize");
  EXPECT_GT(seconds(estimate(job), "evaluate_dense"), 0.0);
  EXPECT_GT(seconds(estimate(job), "evaluate_compressed"), 0.0);
  job.evaluation.reset();
  EXPECT_EQ(seconds(estimate(job), "evaluate_dense"), 0.0);
  EXPECT_EQ(seconds(estimate(job), "evaluate_compressed"), 0.0);
}

TEST(TimeEstimate, HealingTakesThreePassesOfItsWindowsForEachEpoch) {
  ResolvedJob job = job_of(1, "pipeline", "slicegpt");
  job.calibration.samples = 64;
  job.healing = Healing{.samples = {}, .epochs = 0};
  EXPECT_EQ(seconds(estimate(job), "heal"), 0.0);
  job.healing->epochs = 3;
  const TimeEstimate three = estimate(job);
  job.healing.reset();
  const TimeEstimate without = estimate(job);
  EXPECT_NEAR(three.steps.heal, three.total() - without.total(), 1e-9);
  EXPECT_GT(three.steps.heal, 3 * 3 * 0.8 * seconds(without, "forward"));
  job.healing = Healing{.samples = {}, .epochs = 6};
  const TimeEstimate six = estimate(job);
  EXPECT_LT(six.steps.heal, 2.0 * three.steps.heal);  // the dense model runs once
  EXPECT_GT(six.steps.heal, 1.6 * three.steps.heal);
  job.healing->epochs = 3;
  job.healing->samples = 128;
  EXPECT_NEAR(seconds(estimate(job), "heal") / seconds(three, "heal"), 2.0, 0.2);
}

TEST(TimeEstimate, AComparisonTakesTimeAndSpace) {
  ResolvedJob job = job_of(2, "pipeline", "pca_dotresize");
  const TimeEstimate with = estimate(job);
  const ShardPlan plan = make_shard_plan(small_llama(), job);
  const Traffic traffic = estimate_traffic(small_llama(), job, plan);
  job.evaluation->kl = false;
  const TimeEstimate without = estimate(job);
  EXPECT_GT(with.steps.evaluate_dense, without.steps.evaluate_dense);
  EXPECT_GT(with.steps.evaluate_compressed, 1.1 * without.steps.evaluate_compressed);
  const Traffic less = estimate_traffic(small_llama(), job, plan);
  const int64_t states = int64_t{128} * 256 * 256 * 4;
  EXPECT_EQ(traffic.journal_bytes - less.journal_bytes, states);
  EXPECT_EQ(traffic.written_bytes - less.written_bytes, states);
}

TEST(TimeEstimate, RanksThatShareAProcessorGainNothing) {
  for (const Schedule& schedule : schedules()) {
    const char* name = schedule.name.data();
    EXPECT_GE(estimate(job_of(4, name, "pca_dotresize")).total(),
              0.99 * estimate(job_of(1, name, "pca_dotresize")).total());
  }
}

TEST(TimeEstimate, RanksOnHostsOfTheirOwnGain) {
  v1::Hardware hardware = plain_cpu();
  hardware.set_ranks_per_host(1);
  hardware.set_link(1e12);
  const double alone = estimate(job_of(1, "pipeline", "pca_dotresize"), hardware).total();
  const double four = estimate(job_of(4, "pipeline", "pca_dotresize"), hardware).total();
  EXPECT_LT(four, alone / 2.5);
  EXPECT_GT(four, alone / 4.0);
}

TEST(TimeEstimate, APipelineWaitsUntilItIsFull) {
  v1::Hardware hardware = plain_cpu();
  hardware.set_ranks_per_host(1);
  hardware.set_link(1e15);
  const ResolvedJob job = job_of(3, "pipeline", "pca_dotresize");
  const auto wait_of = [&](int64_t times) {
    ResolvedJob longer = job;
    *longer.calibration.samples *= times;
    return seconds(estimate(longer, hardware), "wait");
  };
  // Ranks also wait for the slowest stage, for a time that is proportional to the tokens.
  const double for_slowest = wait_of(2) - wait_of(1);
  const double fill = wait_of(1) - for_slowest;
  EXPECT_GT(for_slowest, 0.0);
  EXPECT_GT(fill, 0.0);
  EXPECT_NEAR(wait_of(4) - 4.0 * for_slowest, fill, 1e-6 * fill);
}

TEST(TimeEstimate, AStreamTakesItsSlowestStageAndOneMicrobatchOfEachOther) {
  v1::Hardware hardware = plain_cpu();
  hardware.set_ranks_per_host(1);
  for (const int64_t samples : {2, 64}) {
    ResolvedJob job = job_of(3, "pipeline", "pca_dotresize");
    job.calibration.samples = samples;
    const ModelConfig config = small_llama();
    const ShardPlan plan = make_shard_plan(config, job);
    const RankRates rates = rank_rates(hardware, job);
    const JobTime time({config, job, plan}, rates);
    const PhaseTimes streamed = time.streamed([](const RankShard& shard) {
      PhaseTimes stage;
      stage.add("forward", 1.0 + shard.rank);
      return stage;
    });
    EXPECT_NEAR(streamed.total(), 3.0 + (1.0 + 2.0) / time.microbatches, 1e-9);
    EXPECT_NEAR(streamed.phases.front().seconds, 2.0, 1e-9);  // of a mean rank
    EXPECT_EQ(time.microbatches == 1.0, samples == 2);
  }
}

TEST(TimeEstimate, ASlowLinkHoldsThePipelineUp) {
  v1::Hardware hardware = plain_cpu();
  EXPECT_EQ(seconds(estimate(job_of(3, "pipeline", "pca_dotresize"), hardware), "communicate"),
            0.0);
  hardware.set_link(1e3);
  EXPECT_GT(seconds(estimate(job_of(3, "pipeline", "pca_dotresize"), hardware), "communicate"),
            0.0);
}

TEST(TimeEstimate, WhatIsCachedIsNotReadTwice) {
  v1::Hardware hardware = plain_cpu();
  hardware.mutable_disk()->set_read(1e6);
  const ResolvedJob job = job_of(1, "pipeline", "pca_dotresize");
  const double before = seconds(estimate(job, hardware), "read");
  const double bytes = 2.0 * static_cast<double>(stored_parameters(small_llama()));
  hardware.mutable_disk()->set_cache(bytes - 1);
  EXPECT_DOUBLE_EQ(seconds(estimate(job, hardware), "read"), before);
  hardware.mutable_disk()->set_cache(bytes);
  // Without a cache, loading and folding read the weights again. Folding hides a part of that.
  EXPECT_LT(seconds(estimate(job, hardware), "read"), before - 1.5 * bytes / 1e6);
}

TEST(TimeEstimate, WhatIsReadHasTheDtypesOfTheFiles) {
  v1::Hardware hardware = plain_cpu();
  hardware.mutable_disk()->set_read(1e3);
  const ResolvedJob job = job_of(2, "pipeline", "pca_dotresize");
  const auto read = [&](const ModelConfig& config) {
    return seconds(estimate_time(config, job, make_shard_plan(config, job), hardware), "read");
  };
  const auto moved = [&](const ModelConfig& config) {
    return estimate_traffic(config, job, make_shard_plan(config, job)).read_bytes;
  };
  ModelConfig mixed = small_llama();
  mixed.files.dtypes.set("model.embed_tokens.weight", Dtype::kFloat32);
  mixed.files.dtypes.set("model.layers.3.mlp.up_proj.weight", Dtype::kFloat32);
  const int64_t more = stored_bytes(mixed) - stored_bytes(small_llama());
  EXPECT_EQ(more, 2 * 256 * (4096 + 768));
  EXPECT_EQ((moved(mixed) - moved(small_llama())) % more, 0);
  EXPECT_GE(moved(mixed) - moved(small_llama()), 3 * more);
  EXPECT_GT(read(mixed), read(small_llama()) + static_cast<double>(more) / 1e3);
}

TEST(TimeEstimate, TheNameplateJobTakesMinutesOnItsMachine) {
  ModelConfig config = llama31();  // the 8B, with width and depth of the 70B
  config.hidden_size = 8192;
  config.layers.resize(80, config.layers.front());
  for (LayerSpec& layer : config.layers) {
    layer.attention.num_heads = 64;
    layer.mlp.intermediate_size = 28672;
  }
  config.form.junction_widths.assign(161, 8192);
  ResolvedJob job = small_job(config, 8);
  job.widths = uniform_widths(config, job.maps.head_sliced, 6528);
  job.calibration.seqlen = job.evaluation->seqlen = 2048;
  job.resources.device = DeviceKind::kCuda;
  job.resources.compute_dtype = Dtype::kFloat16;
  const TimeEstimate time =
      estimate_time(config, job, make_shard_plan(config, job),
                    read_hardware(DOTRESIZE_SOURCE_DIR "/examples/hardware/v100x8.yaml"));
  EXPECT_GT(time.total(), 8 * 60);
  EXPECT_LT(time.total(), 20 * 60);
}

/// Jobs that state only a size, on real machines, within their memory.
class SizeAlone : public ResolveJob {
 protected:
  TimeEstimate time_of(const std::string& model, const std::string& machine,
                       const std::string& resources) {
    const std::string source = DOTRESIZE_SOURCE_DIR;
    const std::string file = source + "/bench/configs/" + model + ".json";
    config_ = parse_model_config(read_whole_file(file, 1 << 20), file);
    text(
        "name: n\nmodel: {path: m}\noutput: {path: o}\nmethod: {size: 0.8}\n"
        "calibration: {text: [c.txt]}\nevaluation: {text: [e.txt]}\nresources: " +
        resources + "\n");
    const v1::Hardware hardware = read_hardware(source + "/examples/hardware/" + machine + ".yaml");
    const ResolvedJob job = resolve_job(
        spec_, config_, launch_facts(hardware, static_cast<int>(spec_.resources().ranks())));
    const ShardPlan plan = make_shard_plan(config_, job);
    EXPECT_TRUE(fits(plan, job));
    return estimate_time(config_, job, plan, hardware);
  }
  double minutes(const std::string& model, const std::string& machine,
                 const std::string& resources) {
    return time_of(model, machine, resources).total() / 60.0;
  }
};

TEST_F(SizeAlone, Of70BTakesHalfAnHourOnEightV100s) {
  EXPECT_LT(minutes("llama-3.1-70b", "v100x8",
                    "{ranks: 8, device: cuda, memory: 32GiB, device_memory: 30GiB}"),
            31.0);
}

TEST_F(SizeAlone, HasCutsThatProgressCountsApart) {
  const TimeEstimate time = time_of("llama-3.2-1b", "cpu", "{ranks: 1, device: cpu}");
  EXPECT_GT(seconds(time, "cut"), 0.0);
  EXPECT_EQ(time.steps.cuts, seconds(time, "cut") + seconds(time, "journal"));
  EXPECT_NEAR(seconds_of_progress(time.steps), time.total(), 1e-9 * time.total());
}

TEST_F(SizeAlone, Of8BTakes15MinutesOnOneH100) {
  EXPECT_LT(minutes("llama-3.1-8b", "h100x1", "{ranks: 1, device: cuda}"), 15.0);
}

}  // namespace
}  // namespace dotresize
