#include "worker/commands/run/trace.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/process/environment.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr double kMicroseconds = 1e6;

Json span_event(const PhaseClock::Span& span, int rank) {
  Json event = {{"name", span.phase},
                {"ph", "X"},
                {"ts", span.begin_s * kMicroseconds},
                {"dur", (span.end_s - span.begin_s) * kMicroseconds},
                {"pid", rank},
                {"tid", rank}};
  if (!span.detail.empty()) event["args"] = {{"junction", span.detail}};
  return event;
}

Json name_event(int rank) {
  return {{"name", "process_name"},
          {"ph", "M"},
          {"pid", rank},
          {"args", {{"name", "rank " + std::to_string(rank) + " on " + host_name()}}}};
}

}  // namespace

void check_trace_path(const fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::absolute(path).parent_path();
  if (!fs::is_directory(folder, error)) {
    throw InputError("--trace", folder.string() + ": there is no such directory");
  }
  if (fs::is_directory(path, error)) throw InputError("--trace", path.string() + " is a directory");
  if (::access(folder.c_str(), W_OK) != 0) {
    throw InputError("--trace", folder.string() + " is not writable");
  }
}

void write_trace(Communicator& comm, const PhaseClock& clock, const fs::path& path) {
  Json mine = Json::array({name_event(comm.rank())});
  for (const PhaseClock::Span& span : clock.spans()) mine.push_back(span_event(span, comm.rank()));
  const std::vector<std::string> ranks = gather_strings(comm, mine.dump(), 0);
  if (comm.rank() != 0) return;
  Json events = Json::array();
  for (const std::string& rank : ranks) {
    for (Json& event : Json::parse(rank)) events.push_back(std::move(event));
  }
  const Json document = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  write_file_atomically(path, document.dump() + "\n");
}

}  // namespace dotresize
