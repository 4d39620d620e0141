#include "server/launch/kubernetes/kubernetes_api.h"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/process/environment.h"
#include "base/text/parse_number.h"
#include "base/text/printable.h"
#include "server/access/endpoint.h"
#include "server/launch/kubernetes/kubernetes_jobs.h"

namespace dotresize {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kScheme = "https://";
constexpr char kServiceAccount[] = "/var/run/secrets/kubernetes.io/serviceaccount";
constexpr uint64_t kMaxTokenBytes = uint64_t{64} << 10;
constexpr size_t kMaxAnswerBytes = size_t{32} << 20;
constexpr int kPage = 100;  // MPIJobs per page
constexpr std::chrono::seconds kConnectLimit{5};
constexpr std::chrono::seconds kAnswerLimit{10};  // per answer
constexpr int kLongestRetryAfterS = 60;

std::optional<HttpUrl> parse_url(const std::string& text) {
  std::optional<HttpUrl> url = parse_http_url(text);
  if (!url || !url->tls || !url->query.empty()) return std::nullopt;
  while (url->path.ends_with('/')) url->path.pop_back();
  return url;
}

std::string trimmed(const std::string& text) {
  constexpr char kBlanks[] = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::string read_token(const std::filesystem::path& file) {
  std::string token = trimmed(read_whole_file(file, kMaxTokenBytes));
  if (token.empty() || !is_plain_word(token, "-._~+/=")) {
    throw InputError("--kubernetes-token", file.string() + " holds no bearer token");
  }
  return token;
}

/// API URL of the cluster that this pod runs in; empty outside a pod.
std::string url_from_environment() {
  std::string host = environment_variable("KUBERNETES_SERVICE_HOST");
  const std::string port = environment_variable("KUBERNETES_SERVICE_PORT");
  if (host.empty()) return "";
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return fmt::format("{}{}{}{}", kScheme, host, port.empty() ? "" : ":", port);
}

std::chrono::seconds retry_after(const httplib::Response& response) {
  const auto seconds = parse_number<int>(response.get_header_value("Retry-After"));
  return std::chrono::seconds(std::clamp(seconds.value_or(0), 0, kLongestRetryAfterS));
}

std::string no_answer(httplib::Error error) {
  switch (error) {
    case httplib::Error::Connection:
    case httplib::Error::ConnectionTimeout:
      return "it cannot be connected to";
    case httplib::Error::SSLLoadingCerts:
      return "the file of --kubernetes-ca holds no certificates";
    case httplib::Error::SSLConnection:
    case httplib::Error::SSLServerVerification:
      return "its certificate is not of the authority in --kubernetes-ca, or not for its name";
    case httplib::Error::Canceled:
      return "its answer is too large, or comes too slowly";
    default:
      return "the connection broke: " + httplib::to_string(error);
  }
}

httplib::Request make_request(const char* method, std::string path, std::string body = "") {
  httplib::Request request;
  request.method = method;
  request.path = std::move(path);
  request.body = std::move(body);
  return request;
}

/// Returns the answer. Throws ApiFault unless its status is one of `statuses`.
ApiAnswer expect(ApiAnswer answer, std::initializer_list<int> statuses) {
  if (std::ranges::find(statuses, answer.status) == statuses.end()) {
    throw ApiFault(api_message(answer.status, answer.body));
  }
  return answer;
}

}  // namespace

std::string api_url_fault(const std::string& url) {
  return parse_url(url) ? ""
                        : "'" + url + "' is not https://HOST, https://HOST:PORT or with a path";
}

KubernetesAccess complete_access(KubernetesAccess access) {
  const std::filesystem::path account = kServiceAccount;
  if (access.url.empty()) access.url = url_from_environment();
  if (access.url.empty()) {
    throw InputError("--kubernetes-api", "is needed: this is no pod of a cluster");
  }
  const std::string fault = api_url_fault(access.url);
  if (!fault.empty()) throw InputError("--kubernetes-api", fault);
  if (access.token.empty()) access.token = account / "token";
  if (access.ca.empty()) access.ca = account / "ca.crt";
  if (access.space.empty() && std::filesystem::exists(account / "namespace")) {
    access.space = trimmed(read_whole_file(account / "namespace", kMaxTokenBytes));
  }
  if (access.space.empty() || !is_plain_word(access.space, "-")) {
    throw InputError("--kubernetes-namespace", "is needed, the name of one");
  }
  read_token(access.token);
  const InputFile readable(access.ca.string());
  return access;
}

KubernetesApi::KubernetesApi(const KubernetesAccess& access)
    : path_("/apis/kubeflow.org/v2beta1/namespaces/" + access.space + "/mpijobs"),
      token_(read_token(access.token)) {
  const HttpUrl address = parse_url(access.url).value();
  path_ = address.path + path_;
  client_ = std::make_unique<httplib::SSLClient>(host_of(address.endpoint), address.endpoint.port);
  client_->set_ca_cert_path(InputFile(access.ca.string()).path());
  client_->set_connection_timeout(kConnectLimit);
  client_->set_read_timeout(kAnswerLimit);
  client_->set_write_timeout(kAnswerLimit);
  client_->set_keep_alive(true);
}

KubernetesApi::~KubernetesApi() = default;

ApiAnswer KubernetesApi::send(httplib::Request& request) {
  ApiAnswer answer;
  const Clock::time_point deadline = Clock::now() + kAnswerLimit;
  request.headers = {{"Authorization", "Bearer " + token_},
                     {"Accept", "application/json"},
                     {"Accept-Encoding", "identity"},
                     {"Content-Type", "application/json"},
                     {"User-Agent", "dotresize-server"}};
  request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
    if (answer.body.size() + size > kMaxAnswerBytes || Clock::now() > deadline) return false;
    answer.body.append(data, size);
    return true;
  };
  const httplib::Result result = client_->send(request);
  if (!result) throw ApiFault(no_answer(result.error()));
  answer.status = result->status;
  if (answer.status == 401 || answer.status == 429 || answer.status >= 500) {
    throw ApiFault(api_message(answer.status, answer.body), retry_after(*result));
  }
  return answer;
}

ApiAnswer KubernetesApi::create(const std::string& manifest) {
  httplib::Request request = make_request("POST", path_, manifest);
  ApiAnswer answer = send(request);
  return is_refusal(answer.status) ? answer : expect(std::move(answer), {200, 201, 202, 409});
}

ApiAnswer KubernetesApi::get(const std::string& name) {
  httplib::Request request = make_request("GET", path_ + "/" + name);
  return expect(send(request), {200, 404});
}

ApiAnswer KubernetesApi::list(const std::string& selector, const std::string& next) {
  std::string path = fmt::format("{}?labelSelector={}&limit={}", path_, selector, kPage);
  if (!next.empty()) {
    if (!is_plain_word(next, "-_.~=")) throw ApiFault("a list goes on behind what is no token");
    path += "&continue=" + next;
  }
  httplib::Request request = make_request("GET", path);
  return expect(send(request), {200});
}

ApiAnswer KubernetesApi::remove(const std::string& name, const std::string& uid) {
  const nlohmann::json options = {{"apiVersion", "v1"},
                                  {"kind", "DeleteOptions"},
                                  {"propagationPolicy", "Foreground"},
                                  {"preconditions", {{"uid", uid}}}};
  httplib::Request request = make_request("DELETE", path_ + "/" + name, options.dump());
  return expect(send(request), {200, 202, 404, 409});
}

}  // namespace dotresize
