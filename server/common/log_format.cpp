#include "server/common/log_format.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text/printable.h"

namespace dotresize {
namespace {

constexpr char kLogger[] = "dotresize-server";

/// Job that the line currently written by this thread is about.
struct Subject {
  std::string job;
  int attempt = 0;
  std::string traceparent = {};
};

thread_local const Subject* current_subject = nullptr;

/// Formats on the logging thread, so that it can read `current_subject`.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    using google::protobuf::util::TimeUtil;
    const int64_t ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(message.time.time_since_epoch())
            .count();
    const auto level = spdlog::level::to_string_view(message.level);
    nlohmann::ordered_json line = {
        {"time", TimeUtil::ToString(TimeUtil::NanosecondsToTimestamp(ns))},
        {"level", std::string_view(level.data(), level.size())},
        {"message", printable(std::string_view(message.payload.data(), message.payload.size()))}};
    if (current_subject != nullptr) {
      line["job"] = current_subject->job;
      if (current_subject->attempt > 0) line["attempt"] = current_subject->attempt;
      if (!current_subject->traceparent.empty()) line["traceparent"] = current_subject->traceparent;
    }
    const std::string text = line.dump() + "\n";
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

/// Pattern flag that prints the job, if the line is about one.
class SubjectFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg&, const std::tm&, spdlog::memory_buf_t& out) override {
    if (current_subject == nullptr) return;
    const std::string text = "job " + current_subject->job + ": ";
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<SubjectFlag>();
  }
};

}  // namespace

void set_up_log(LogFormat format) {
  const auto logger =
      std::make_shared<spdlog::logger>(kLogger, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (format == LogFormat::kJson) {
    logger->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<SubjectFlag>('*').set_pattern("[%Y-%m-%d %H:%M:%S.%e] [%n] [%l] %*%v");
    logger->set_formatter(std::move(formatter));
  }
  spdlog::set_default_logger(logger);
}

void log_job(spdlog::level::level_enum level, const std::string& id, int attempt,
             const std::string& message, const std::string& traceparent) {
  const Subject subject{id, attempt, traceparent};
  current_subject = &subject;
  spdlog::log(level, "{}", message);
  current_subject = nullptr;
}

void log_job(spdlog::level::level_enum level, const v1::Job& job, const std::string& message) {
  log_job(level, job.id(), job.attempt(), message, job.traceparent());
}

}  // namespace dotresize
