#include "job/spec/job_file.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>

#include "base/errors.h"
#include "job/spec/validate_spec.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

constexpr const char* kMinimal = R"(
name: docs
model: {path: m}
output: {path: out/x}
method: {sparsity: 0.2}
calibration: {text: [a.txt, ../b.txt]}
)";

// Every key, with a value other than its default. Exceptions are labels, whose other value needs no
// seed, and format and allocate, whose other values leave nothing to give.
constexpr const char* kEverything = R"(
name: everything
model:
  path: /m
  origin: hf://owner/m@c0ffee
output:
  path: /o
  destination: s3://bucket/o
  dtype: bfloat16
  overwrite: true
  report_html: true
  maps: true
  architecture: mistral
  format: any
method:
  name: slicegpt
  sparsity: 0.25
  lambda: 1e-1
  head: sliced
  round_to: 16
  on_nonconvergence: accept
  metric: fisher
  mlp: {sparsity: 0.5}
  allocate: off
  allow_larger: true
calibration:
  text: [/c.txt]
  samples: 64
  seqlen: 512
  activations: original
evaluation:
  tokens: /e.safetensors
  seqlen: 256
  samples: 4
  kl: false
heal:
  samples: 128
  epochs: 2
  learning_rate: 1e-4
resources:
  ranks: 8
  device: cpu
  compute_dtype: float16
  launcher: slurm
  timeout_s: 60
  memory: 24GiB
  device_memory: 31 GB
)";

v1::JobSpec parse(const std::string& text) { return parse_job(text, "job.yaml", "/base").spec; }

/// Appends the keys of unset fields to `unset`.
void collect_unset(const Message& message, const std::string& prefix,
                   std::vector<std::string>& unset) {
  const Descriptor& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    const std::string key = prefix + field.name();
    const auto& reflection = *message.GetReflection();
    const bool set = field.is_repeated() ? reflection.FieldSize(message, &field) > 0
                                         : reflection.HasField(message, &field);
    if (!set) {
      unset.push_back(key);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      collect_unset(reflection.GetMessage(message, &field), key + ".", unset);
    }
  }
}

TEST(JobFile, EveryOptionCanBeGiven) {
  std::vector<std::string> unset;
  collect_unset(parse(kEverything), "", unset);
  // Alternatives to the given keys.
  EXPECT_THAT(unset, testing::ElementsAre("method.width", "method.size", "method.bytes",
                                          "method.speed", "method.mlp.width", "calibration.tokens",
                                          "calibration.statistics", "evaluation.text"));
}

TEST(JobFile, AnAmountOfMemoryIsCheckedByItsKey) {
  for (const char* amount : {"24 apples", "-1GiB", "0", "GiB", "1e30TiB", "nan", "''"}) {
    try {
      parse(with(kEverything, "24GiB", amount));
      ADD_FAILURE() << amount << " was accepted";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("resources.memory: '")) << amount;
    }
  }
  EXPECT_EQ(parse(with(kEverything, "24GiB", "1048576")).resources().memory(), "1048576");
}

TEST(JobFile, ValuesArrive) {
  const v1::JobSpec spec = parse(kEverything);
  EXPECT_EQ(spec.output().dtype(), v1::Output::bfloat16);
  EXPECT_EQ(spec.method().name(), v1::Method::slicegpt);
  EXPECT_EQ(spec.method().sparsity(), 0.25);
  EXPECT_EQ(spec.method().lambda(), 0.1);
  EXPECT_EQ(spec.method().lambda(), 0.1);
  EXPECT_EQ(spec.calibration().activations(), v1::Calibration::original);
  EXPECT_EQ(spec.evaluation().tokens(), "/e.safetensors");
  EXPECT_EQ(spec.resources().compute_dtype(), v1::ComputeDtype::float16);
}

TEST(JobFile, AbsentOptionsStayAbsent) {
  const v1::JobSpec spec = parse(kMinimal);
  EXPECT_FALSE(spec.has_evaluation());
  EXPECT_FALSE(spec.method().has_lambda());
  EXPECT_FALSE(spec.method().has_width());
  EXPECT_FALSE(spec.resources().has_ranks());
}

TEST(JobFile, NullIsAbsent) {
  const v1::JobSpec spec = parse(std::string(kMinimal) + "evaluation: null\nresources:\n");
  EXPECT_FALSE(spec.has_evaluation());
  EXPECT_FALSE(spec.has_resources());
}

TEST(JobFile, RelativePathsAreRelativeToTheFile) {
  const v1::JobSpec spec = parse(kMinimal);
  EXPECT_EQ(spec.model().path(), "/base/m");
  EXPECT_EQ(spec.output().path(), "/base/out/x");
  EXPECT_EQ(spec.calibration().text(0), "/base/a.txt");
  EXPECT_EQ(spec.calibration().text(1), "/b.txt");
}

TEST(JobFile, JsonGivesTheSpecBackUnchanged) {
  for (const char* text : {kMinimal, kEverything}) {
    const v1::JobSpec spec = parse(text);
    const v1::JobSpec again = parse_job(job_spec_to_json(spec), "job.json", "/elsewhere").spec;
    EXPECT_TRUE(MessageDifferencer::Equals(spec, again)) << job_spec_to_json(spec);
  }
}

TEST(JobFile, OddNamesSurviveTheRoundTrip) {
  v1::JobSpec spec = parse(kMinimal);
  spec.set_name("it's \"quoted\": <b> & # é 漢 🙂 \\ {x} null");
  spec.mutable_model()->set_path("/m/ with: spaces # and 'quotes'");
  const v1::JobSpec again = parse_job(job_spec_to_json(spec), "job.json", "/").spec;
  EXPECT_TRUE(MessageDifferencer::Equals(spec, again)) << job_spec_to_json(spec);
}

TEST(JobFile, JsonWithTabsIsYamlToo) {
  const v1::JobSpec spec = parse(
      "{\n\t\"name\": \"j\",\n\t\"model\": {\"path\": \"/m\"},\n\t\"output\": "
      "{\"path\": \"/o\"},\n\t\"method\": {\"width\": 8},\n\t\"calibration\": "
      "{\"tokens\": \"/t\"}\n}");
  EXPECT_EQ(spec.method().width(), 8u);
}

TEST(JobFile, TagsChangeNothing) {
  const v1::JobSpec spec =
      parse(with(kMinimal, "sparsity: 0.2", "sparsity: !!float 0.2, head: !<tag:evil> sliced"));
  EXPECT_EQ(spec.method().sparsity(), 0.2);
  EXPECT_EQ(spec.method().head(), v1::Method::sliced);
}

TEST(JobFile, AnchorsWork) {
  const v1::JobSpec spec =
      parse(with(kMinimal, "[a.txt, ../b.txt]", "&t [a.txt]") + "evaluation: {text: *t}\n");
  EXPECT_EQ(spec.evaluation().text(0), "/base/a.txt");
}

TEST(JobFile, IsReadFromDisk) {
  const TemporaryDirectory dir;
  const v1::JobSpec spec = open_job_file(dir.write("job.yaml", kMinimal)).spec;
  EXPECT_EQ(spec.model().path(), (dir.path() / "m").string());
}

TEST(ValidateSpec, RelativePathsAreAFault) {
  v1::JobSpec spec = parse(kMinimal);
  EXPECT_THAT(validate_spec(spec), testing::IsEmpty());
  spec.mutable_model()->set_path("m");
  const auto violations = validate_spec(spec);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].field, "model.path");
  EXPECT_EQ(violations[0].description, "'m' is not an absolute path");
}

TEST(ValidateSpec, UnknownEnumNumbersAreFaults) {
  v1::JobSpec spec = parse(kMinimal);
  spec.mutable_method()->set_name(static_cast<v1::Method::Name>(77));
  const auto violations = validate_spec(spec);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].field, "method.name");
  EXPECT_THAT(violations[0].description, testing::StartsWith("77 is not"));
}

TEST(ValidateSpec, AnEmptySpecNamesEverythingThatIsMissing) {
  std::vector<std::string> fields;
  for (const auto& violation : validate_spec({})) fields.push_back(violation.field);
  EXPECT_THAT(fields, testing::ElementsAre("model.path", "output.path", "method.sparsity",
                                           "calibration.text"));
}

TEST(JobFile, IsNamedAfterItsOutputUnlessItHasAName) {
  const auto name_with = [](const std::string& output, const std::string& more = "") {
    return parse_job("model: {path: m}\noutput: {path: " + output +
                         "}\nmethod: {size: 0.8}\ncalibration: {text: [c.txt]}\n" + more,
                     "job.yaml", "/base")
        .spec.name();
  };
  EXPECT_EQ(name_with("out/llama-80"), "llama-80");
  EXPECT_EQ(name_with("out/llama-80//"), "llama-80");
  EXPECT_EQ(name_with("out/a/../b/."), "b");
  EXPECT_EQ(name_with("hf://owner/model-80@main"), "model-80");
  EXPECT_EQ(name_with("s3://bucket/some/model"), "model");
  EXPECT_EQ(name_with("/out/" + std::string(300, 'x')), std::string(100, 'x'));
  EXPECT_EQ(name_with("out/llama-80", "name: mine\n"), "mine");
  EXPECT_EQ(name_with("out/llama-80", "name:\n"), "llama-80");
  v1::JobSpec copied;  // as a job whose output goes elsewhere afterwards
  copied.mutable_output()->set_path("/cache/output");
  copied.mutable_output()->set_destination("hf://owner/model-80");
  EXPECT_EQ(name_of(copied), "model-80");
}

TEST(JobFile, PathsMayBeginWithTheHomeDirectory) {
  const std::string home = ::getenv("HOME") ? ::getenv("HOME") : "";
  ::setenv("HOME", "/home/somebody", 1);
  const v1::JobSpec spec = parse_job(
                               "model: {path: ~/m}\noutput: {path: out/~/x}\nmethod: {size: 0.8}\n"
                               "calibration: {text: [~/c.txt, ~other/c.txt]}\n",
                               "job.yaml", "/base", {"output.path=~/o"})
                               .spec;
  ::setenv("HOME", home.c_str(), 1);
  EXPECT_EQ(spec.model().path(), "/home/somebody/m");
  EXPECT_EQ(spec.output().path(), "/home/somebody/o");
  EXPECT_EQ(spec.calibration().text(0), "/home/somebody/c.txt");
  EXPECT_EQ(spec.calibration().text(1), "/base/~other/c.txt");
}

TEST(JobFile, AServerDoesNotKnowTheHomeDirectory) {
  v1::JobSpec spec = parse_job(kMinimal, "job.yaml", "/base").spec;
  spec.mutable_model()->set_path("~/m");
  const auto violations = validate_spec(spec);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].description, "'~/m' is not an absolute path; ~ is not expanded here");
}

}  // namespace
}  // namespace dotresize
