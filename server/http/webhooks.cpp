#include "server/http/webhooks.h"

#include <google/protobuf/util/time_util.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/text/encodings.h"
#include "base/text/printable.h"
#include "job/status/job_rows.h"
#include "server/api_error.h"
#include "server/store/files.h"

namespace dotresize {
namespace {

using Json = nlohmann::ordered_json;
using google::protobuf::util::TimeUtil;

constexpr char kWebhookOption[] = "--allow-webhook";
constexpr char kSecretOption[] = "--webhook-secret";
constexpr char kWebhookField[] = "options.notify.webhook";
constexpr std::string_view kKeyPrefix = "whsec_";
constexpr uint64_t kMaxKeyFileBytes = 4096;
constexpr size_t kLeastKeyBytes = 24;
constexpr size_t kMostKeyBytes = 64;

Json figures_of(const v1::ModelSize& size) {
  Json figures = {{"parameters", size.parameters()}, {"bytes", size.bytes()}};
  if (size.perplexity() > 0.0) figures["perplexity"] = size.perplexity();
  if (size.has_kl()) figures["kl"] = size.kl();
  if (size.has_agreement()) figures["agreement"] = size.agreement();
  return figures;
}

/// Data of the webhook's body; keys as in the message Job.
Json data_of(const v1::Job& job) {
  Json data = {{"id", job.id()},
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
  Json& json = data["result"];
  json = {{"output_path", result.output_path()}, {"wall_time_s", result.wall_time_s()}};
  json["dense"] = figures_of(result.dense());
  if (result.has_compressed()) json["compressed"] = figures_of(result.compressed());
  json["warnings"] = std::vector<std::string>(result.warnings().begin(), result.warnings().end());
  return data;
}

}  // namespace

WebhookPolicy::WebhookPolicy(const WebhookOptions& options) {
  for (const std::string& prefix : options.prefixes) {
    const std::optional<HttpUrl> url = parse_http_url(prefix);
    if (!url || !url->query.empty()) {
      throw InputError(
          kWebhookOption,
          in_quotes(prefix) + " is not https://HOST, https://HOST:PORT or with a path");
    }
    prefixes_.push_back(*url);
  }
  if (prefixes_.empty()) return;
  if (options.secret.empty()) {
    throw InputError(kWebhookOption, "needs --webhook-secret: messages are signed");
  }
  read_webhook_key(options.secret);
}

bool WebhookPolicy::allows(const HttpUrl& url) const {
  return std::ranges::any_of(prefixes_, [&](const HttpUrl& prefix) {
    const std::string& path = prefix.path;
    if (url.origin() != prefix.origin() || !url.path.starts_with(path)) return false;
    return path.empty() || path.ends_with('/') || url.path.size() == path.size() ||
           url.path[path.size()] == '/';
  });
}

void WebhookPolicy::require(const v1::JobOptions& options) const {
  if (!options.has_notify()) return;
  const v1::Notify& notify = options.notify();
  if (notify.GetReflection()->GetUnknownFields(notify).field_count() > 0) {
    throw invalid_argument("options.notify", "has a field that this server does not know");
  }
  const std::optional<HttpUrl> url = parse_http_url(notify.webhook());
  if (!url) {
    throw invalid_argument(kWebhookField,
                           in_quotes(notify.webhook()) +
                               " is not an https or http URL in plain characters without "
                               "user, escapes in its path, and fragment");
  }
  if (allows(*url)) return;
  throw ApiError(grpc::StatusCode::PERMISSION_DENIED, "WEBHOOK_NOT_ALLOWED",
                 std::string(kWebhookField) + ": this server sends no notifications to " +
                     url->origin() + url->path + "; its operator can allow it (--allow-webhook)",
                 {{"field", kWebhookField}});
}

std::string read_webhook_key(const std::filesystem::path& file) {
  require_private_file(kSecretOption, file);
  std::string text = read_whole_file(file, kMaxKeyFileBytes);
  while (text.ends_with('\n')) text.pop_back();
  for (size_t size = kLeastKeyBytes; text.starts_with(kKeyPrefix) && size <= kMostKeyBytes;
       ++size) {
    if (const auto key = from_base64(text.substr(kKeyPrefix.size()), size)) return *key;
  }
  throw InputError(kSecretOption,
                   file.string() +
                       " holds no key, which is \"whsec_\" and the base64 of 24 to 64 bytes: "
                       "(printf whsec_; openssl rand -base64 32) makes one");
}

WebhookMessage webhook_message(const v1::Job& job, int64_t time_s, const std::string& key) {
  std::string state = state_name(job.state());
  const Json body = {{"type", "job." + state},
                     {"timestamp", TimeUtil::ToString(job.end_time())},
                     {"data", data_of(job)}};
  WebhookMessage message;
  message.id = job.notification().id();
  message.time_s = time_s;
  message.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
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
