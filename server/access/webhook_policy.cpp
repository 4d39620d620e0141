#include "server/access/webhook_policy.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/text/encodings.h"
#include "base/text/printable.h"
#include "server/common/api_error.h"
#include "server/store/files.h"

namespace dotresize {
namespace {

constexpr char kWebhookOption[] = "--allow-webhook";
constexpr char kSecretOption[] = "--webhook-secret";
constexpr char kWebhookField[] = "options.notify.webhook";
constexpr std::string_view kKeyPrefix = "whsec_";
constexpr uint64_t kMaxKeyFileBytes = 4096;
constexpr size_t kLeastKeyBytes = 24;
constexpr size_t kMostKeyBytes = 64;

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

}  // namespace dotresize
