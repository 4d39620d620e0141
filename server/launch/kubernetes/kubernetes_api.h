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

/// Address and credentials of the Kubernetes API.
struct KubernetesAccess {
  std::string url;              ///< https://HOST[:PORT][/PREFIX]
  std::filesystem::path token;  ///< file with a bearer token
  std::filesystem::path ca;     ///< PEM file of the API's certificate authority
  std::string space;            ///< the MPIJobs' namespace
};

/// Fills empty fields of `access` from the pod's service account. Throws InputError, naming the
/// option, for a field that is still missing or is invalid.
KubernetesAccess complete_access(KubernetesAccess access);

/// Error text if `url` is not the URL of an API; empty if it is.
std::string api_url_fault(const std::string& url);

/// Error: the API does not answer, or asks to be called later.
struct ApiFault : std::runtime_error {
  explicit ApiFault(const std::string& what, std::chrono::seconds again = {})
      : std::runtime_error(what), retry_after(again) {}
  std::chrono::seconds retry_after;  ///< least pause before the next call; 0: none
};

struct ApiAnswer {
  int status = 0;  ///< HTTP status
  std::string body;
};

/// Connection to the MPIJobs of a namespace (https://kubernetes.io/docs/reference/using-api/). A
/// call takes at most some seconds. It throws ApiFault if there is no answer, or a status that is
/// not listed at the call.
class KubernetesApi {
 public:
  /// `access` is complete. Reads the token and the certificate authority again, since they may have
  /// been replaced. Throws InputError.
  explicit KubernetesApi(const KubernetesAccess& access);
  ~KubernetesApi();

  /// Creates an MPIJob. Status 200, 201 or 202; 409: the name exists already; or a refusal
  /// (kubernetes_jobs.h).
  ApiAnswer create(const std::string& manifest);
  /// Reads an MPIJob. Status 200 or 404.
  ApiAnswer get(const std::string& name);
  /// Lists one page of the MPIJobs that match the selector. Status 200. `next`: see MpiJobPage.
  ApiAnswer list(const std::string& selector, const std::string& next);
  /// Deletes an MPIJob and all that belongs to it if it has this uid. Status 200, 202 or 404; 409:
  /// it has another uid.
  ApiAnswer remove(const std::string& name, const std::string& uid);

 private:
  ApiAnswer send(httplib::Request& request);

  std::string path_;  ///< URL path of the MPIJobs
  std::string token_;
  std::unique_ptr<httplib::SSLClient> client_;
};

}  // namespace dotresize
