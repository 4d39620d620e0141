#include <google/protobuf/util/time_util.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "base/text/encodings.h"
#include "job/status/job_rows.h"
#include "server/http/notifier.h"

namespace dotresize {
namespace {

using OrderedJson = nlohmann::ordered_json;
using google::protobuf::util::TimeUtil;

OrderedJson figures_of(const v1::ModelSize& size) {
  OrderedJson figures = {{"parameters", size.parameters()}, {"bytes", size.bytes()}};
  if (size.perplexity() > 0.0) figures["perplexity"] = size.perplexity();
  if (size.has_kl()) figures["kl"] = size.kl();
  if (size.has_agreement()) figures["agreement"] = size.agreement();
  return figures;
}

/// Data of the webhook's body; keys as in the message Job.
OrderedJson data_of(const v1::Job& job) {
  OrderedJson data = {{"id", job.id()},
                      {"name", job.spec().name()},
                      {"state", v1::Job::State_Name(job.state())},
                      {"attempt", job.attempt()},
                      {"create_time", TimeUtil::ToString(job.create_time())}};
  if (job.has_start_time()) data["start_time"] = TimeUtil::ToString(job.start_time());
  data["end_time"] = TimeUtil::ToString(job.end_time());
  if (job.has_owner()) data["owner"] = job.owner();
  const auto& labels = job.options().labels();  // unordered
  data["labels"] = std::map<std::string, std::string>{labels.begin(), labels.end()};
  if (job.has_error()) {
    data["error"] = {{"code", job.error().code()}, {"message", job.error().message()}};
  }
  if (!job.has_result()) return data;
  const v1::JobResult& result = job.result();
  OrderedJson& json = data["result"];
  json = {{"output_path", result.output_path()}, {"wall_time_s", result.wall_time_s()}};
  json["dense"] = figures_of(result.dense());
  if (result.has_compressed()) json["compressed"] = figures_of(result.compressed());
  json["warnings"] = std::vector<std::string>(result.warnings().begin(), result.warnings().end());
  return data;
}

}  // namespace

WebhookMessage webhook_message(const v1::Job& job, int64_t time_s, const std::string& key) {
  std::string state = state_name(job.state());
  const OrderedJson body = {{"type", "job." + state},
                            {"timestamp", TimeUtil::ToString(job.end_time())},
                            {"data", data_of(job)}};
  WebhookMessage message;
  message.id = job.notification().id();
  message.time_s = time_s;
  message.body = body.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  const std::string content = message.id + "." + std::to_string(time_s) + "." + message.body;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(content.data()), content.size(), digest.data(),
           &size) == nullptr) {
    throw std::runtime_error("OpenSSL cannot compute an HMAC-SHA-256");
  }
  message.signature =
      "v1," + base64(std::string(reinterpret_cast<const char*>(digest.data()), size));
  return message;
}

}  // namespace dotresize
