#pragma once

#include <gtest/gtest.h>

#include "base/errors.h"
#include "job/plan/plan_job.h"
#include "job/spec/job_file.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {

/// A job on the small Llama whose files exist.
class ResolveJob : public testing::Test {
 protected:
  ResolveJob() {
    dir_.write("c.txt", "calibration");
    dir_.write("c.safetensors", token_file({16, 1024}));
    dir_.write("e.txt", "evaluation");
    std::filesystem::create_directory(dir_.path() / "m");
    text(
        "name: n\nmodel: {path: m}\noutput: {path: o}\nmethod: {sparsity: 0.2}\n"
        "calibration: {text: [c.txt]}\n");
  }

  void text(const std::string& yaml) { spec_ = parse_job(yaml, "job.yaml", dir_.path()).spec; }
  void set_heads(int64_t heads) {
    for (LayerSpec& layer : config_.layers) layer.attention.num_heads = heads;
  }
  ResolvedJob resolve() const { return plan_job(spec_, config_).job; }
  std::string error() const {
    try {
      resolve();
    } catch (const InputError& error) {
      return error.what();
    }
    return "was accepted";
  }

  TemporaryDirectory dir_;
  ModelConfig config_ = small_llama();
  v1::JobSpec spec_;
};

}  // namespace dotresize
