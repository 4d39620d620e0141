#include "server/http/notifier.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>
#include <httplib.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/text/encodings.h"
#include "base/text/printable.h"
#include "job/status/job_rows.h"
#include "server/common/log_format.h"
#include "server/http/http_connection.h"

namespace dotresize {
namespace {

using OrderedJson = nlohmann::ordered_json;
using google::protobuf::util::TimeUtil;

constexpr std::chrono::milliseconds kHookPoll{200};
constexpr std::chrono::seconds kPauseAfterFault{2};
constexpr int kHooksAtOnce = 100;
constexpr std::chrono::seconds kHookConnectLimit{5};
constexpr std::chrono::seconds kHookLimit{10};
constexpr std::chrono::milliseconds kGuardPoll{20};
// Pause of an origin that does not answer, or takes longer than kSlow.
constexpr std::chrono::seconds kSilence{30};
constexpr std::chrono::seconds kSlow{2};
constexpr std::chrono::seconds kFirstPause{1};
constexpr std::chrono::seconds kLongestPause{600};
constexpr int kMostAttempts = 150;  // about a day
constexpr int kGone = 410;

/// A message in the format of https://www.standardwebhooks.com.
struct WebhookMessage {
  std::string id;         ///< webhook-id
  int64_t time_s = 0;     ///< webhook-timestamp: Unix time of this attempt
  std::string body;       ///< JSON
  std::string signature;  ///< webhook-signature: "v1,BASE64"
};

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

/// Makes the message that this job has ended. `job` has ended.
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

struct HookAnswer {
  int status = 0;     ///< HTTP status; 0: no answer
  std::string error;  ///< empty: message accepted
};

// An answer of more would be read in vain. One that is much longer would end this process: the
// library matches the status line recursively.
constexpr HttpConnection::Limits kHookAnswer{size_t{16} << 10, kHookLimit, kHookLimit};

/// The library's client, which limits neither the length nor the number of an answer's header
/// lines.
template <class Client>
class LimitedClient final : public Client {
 public:
  using Client::Client;

 private:
  bool process_socket(const typename Client::Socket& socket,
                      std::function<bool(httplib::Stream&)> callback) override {
    HttpConnection connection(socket.sock, socket.ssl, kHookAnswer);
    return callback(connection);
  }
};

HookAnswer send(const HttpUrl& url, const WebhookMessage& message, const std::stop_token& stop) {
  httplib::Request request;
  request.method = "POST";
  request.path = (url.path.empty() ? "/" : url.path) + (url.query.empty() ? "" : "?" + url.query);
  request.body = message.body;
  request.headers = {{"Content-Type", "application/json"},
                     {"User-Agent", "dotresize-server"},
                     {"webhook-id", message.id},
                     {"webhook-timestamp", std::to_string(message.time_s)},
                     {"webhook-signature", message.signature}};
  // The answer's body is not read.
  int status = 0;
  request.response_handler = [&](const httplib::Response& response) {
    status = response.status;
    return false;
  };
  const std::string host = host_of(url.endpoint);
  std::unique_ptr<httplib::ClientImpl> client;
  if (url.tls) {
    client = std::make_unique<LimitedClient<httplib::SSLClient>>(host, url.endpoint.port);
  } else {
    client = std::make_unique<LimitedClient<httplib::ClientImpl>>(host, url.endpoint.port);
  }
  client->set_connection_timeout(kHookConnectLimit);
  client->set_read_timeout(kHookLimit);
  client->set_write_timeout(kHookLimit);
  client->set_follow_location(false);
  // Aborts the call once it takes too long or the server stops.
  const std::jthread guard([&](const std::stop_token& over) {
    const auto end = std::chrono::steady_clock::now() + kHookLimit;
    while (!over.stop_requested()) {
      std::this_thread::sleep_for(kGuardPoll);
      if (stop.stop_requested() || std::chrono::steady_clock::now() > end) client->stop();
    }
  });
  const httplib::Result result = client->send(request);
  if (result) status = result->status;  // without a body
  if (status == 0) {
    switch (result.error()) {
      case httplib::Error::Connection:
      case httplib::Error::ConnectionTimeout:
        return {0, "the connection failed"};
      case httplib::Error::SSLConnection:
      case httplib::Error::SSLServerVerification:
        return {0, "its certificate is from an unknown authority or for another name"};
      default:
        return {0, "it did not answer: " + httplib::to_string(result.error())};
    }
  }
  if (status >= 200 && status < 300) return {status, ""};
  return {status, fmt::format("it answered with {}{}", status,
                              status / 100 == 3 ? "; redirects are not followed" : "")};
}

/// Returns the notification's state after one more attempt.
v1::Notification after(v1::Notification notification, const HookAnswer& answer) {
  const auto now = TimeUtil::GetCurrentTime();
  notification.set_attempts(notification.attempts() + 1);
  *notification.mutable_last_attempt_time() = now;
  notification.set_last_status(answer.status);
  notification.set_last_error(printable(answer.error));
  notification.clear_next_attempt_time();
  if (answer.error.empty()) {
    notification.set_state(v1::Notification::DELIVERED);
  } else if (answer.status == kGone || notification.attempts() >= kMostAttempts) {
    notification.set_state(v1::Notification::GIVEN_UP);
  } else {
    const int doublings = std::min(notification.attempts() - 1, 20);
    const std::chrono::seconds pause = std::min(kFirstPause * (1 << doublings), kLongestPause);
    *notification.mutable_next_attempt_time() = now + TimeUtil::SecondsToDuration(pause.count());
  }
  return notification;
}

}  // namespace

Notifier::Notifier(JobStore& store, const WebhookPolicy& policy, const Access& access,
                   std::filesystem::path secret)
    : store_(store),
      policy_(policy),
      access_(access),
      secret_(std::move(secret)),
      thread_([this](const std::stop_token& stop) { loop(stop); }) {}

Notifier::~Notifier() = default;

void Notifier::loop(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const uint64_t version = store_.changes().version();
    try {
      std::erase_if(silent_until_, [](const auto& entry) { return entry.second < Clock::now(); });
      for (const std::string& id : store_.due_notifications(kHooksAtOnce)) {
        if (stop.stop_requested()) return;
        const std::optional<v1::Job> job = store_.find(id);
        if (job && job->notification().state() == v1::Notification::PENDING) {
          tell(*job, stop);
        } else {
          store_.put_off_notification(id, kSilence);
        }
      }
    } catch (const std::exception& error) {
      spdlog::error("webhooks: {}", error.what());
      std::this_thread::sleep_for(kPauseAfterFault);
    }
    store_.changes().wait_past(version, kHookPoll);
  }
}

Verdict Notifier::check_allowed(const v1::Job& job) const {
  const std::optional<HttpUrl> url = parse_http_url(job.options().notify().webhook());
  if (!url || !policy_.allows(*url)) return Verdict::with_fault("this server no longer allows it");
  // A message tells somebody elsewhere of the job, in the name of its owner. A job without an owner
  // was created without tokens and belongs to the admins.
  if (!job.owner().empty() && access_.role_of_name(job.owner()) < Role::kSubmit) {
    return Verdict::with_fault("its owner has no token any more with which jobs may be submitted");
  }
  return {};
}

void Notifier::tell(const v1::Job& job, const std::stop_token& stop) {
  v1::Notification now = job.notification();
  const std::optional<HttpUrl> url = parse_http_url(job.options().notify().webhook());
  if (const Verdict allowed = check_allowed(job); !allowed) {
    now.set_state(v1::Notification::GIVEN_UP);
    now.set_last_error(allowed.fault());
    now.clear_next_attempt_time();
    return store_.record_notification(job.id(), now);
  }
  const std::string origin = url->origin();
  if (silent_until_.contains(origin)) return store_.put_off_notification(job.id(), kSilence);
  const Clock::time_point begin = Clock::now();
  HookAnswer answer;
  try {
    const std::string key = read_webhook_key(secret_);
    answer = send(*url, webhook_message(job, std::time(nullptr), key), stop);
  } catch (const InputError& error) {
    spdlog::error("webhooks: {}", error.what());
    answer.error = "the server's key cannot be read";
  }
  if (stop.stop_requested() && !answer.error.empty()) return;  // the next server tries again
  if (answer.status == 0 || Clock::now() - begin > kSlow) {
    silent_until_[origin] = Clock::now() + kSilence;
  }
  now = after(now, answer);
  store_.record_notification(job.id(), now);
  // The log has neither path nor query: they may be confidential.
  if (now.state() == v1::Notification::DELIVERED) {
    log_job(spdlog::level::info, job, origin + " was notified of its end");
  } else {
    const bool last = now.state() != v1::Notification::PENDING;
    log_job(spdlog::level::warn, job,
            fmt::format("{} was not notified of its end{}: {}", origin, last ? ", for good" : "",
                        now.last_error()));
  }
}

}  // namespace dotresize
