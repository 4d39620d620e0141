#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

namespace httplib {
class SSLClient;
struct Request;
}  // namespace httplib

namespace dotresize {

/// Where the API is, and as whom it is called.
struct KubernetesAccess {
  std::string url;              ///< https://HOST[:PORT][/PREFIX]
  std::filesystem::path token;  ///< file with a bearer token
  std::filesystem::path ca;     ///< PEM of the authority of its certificate
  std::string space;            ///< namespace of the MPIJobs
};

/// `access` with what a pod's service account says in place of what is empty. Throws InputError,
/// naming the option, for what is missing then or cannot be.
KubernetesAccess complete_access(KubernetesAccess access);

/// Why the text is no URL of an API; empty if it is.
std::string api_url_fault(const std::string& url);

/// The API does not answer, or not now.
struct ApiFault : std::runtime_error {
  explicit ApiFault(const std::string& what, std::chrono::seconds again = {})
      : std::runtime_error(what), retry_after(again) {}
  std::chrono::seconds retry_after;  ///< not to be asked before; 0: any time
};

struct ApiAnswer {
  int status = 0;  ///< of HTTP
  std::string body;
};

/// A connection to the MPIJobs of a namespace (https://kubernetes.io/docs/reference/using-api/).
/// A call takes at most some seconds, and throws ApiFault if there is no answer, or another one
/// than is said here.
class KubernetesApi {
 public:
  /// Of a complete access. Reads token and authority, which may have been replaced since the last
  /// time. Throws InputError.
  explicit KubernetesApi(const KubernetesAccess& access);
  ~KubernetesApi();

  /// 200, 201, 202; 409: there is one of that name; or a refusal (kubernetes_jobs.h).
  ApiAnswer create(const std::string& manifest);
  /// 200 or 404.
  ApiAnswer get(const std::string& name);
  /// 200: a part of the list of those that the selector takes. `next`: see MpiJobPage.
  ApiAnswer list(const std::string& selector, const std::string& next);
  /// With all that belongs to it, if it is the one of this uid: 200 or 202, 404, or 409: it is not.
  ApiAnswer remove(const std::string& name, const std::string& uid);

 private:
  ApiAnswer send(httplib::Request& request);

  std::string path_;  ///< of the MPIJobs
  std::string token_;
  std::unique_ptr<httplib::SSLClient> client_;
};

}  // namespace dotresize
