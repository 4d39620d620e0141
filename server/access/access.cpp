#include "server/access/access.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <sstream>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/files/unique_fd.h"
#include "base/process/environment.h"
#include "base/text/encodings.h"
#include "base/text/printable.h"
#include "server/common/api_error.h"
#include "server/store/files.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kMaxSecretBytes = 1 << 20;
constexpr size_t kMaxName = 64;
constexpr char kOption[] = "--tokens";
constexpr std::array<const char*, 3> kRoles = {"read", "submit", "admin"};

struct Line {
  std::string name;
  Role role = Role::kRead;
  std::string digits;  ///< SHA-256 in hexadecimal
};

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxName && is_plain_word(name, "._@-");
}

/// Parses the content of a file of tokens. `file`: its name in messages.
std::vector<Line> lines_of(const std::string& content, const fs::path& file) {
  std::vector<Line> lines;
  std::istringstream text(content);
  int number = 0;
  for (std::string row; std::getline(text, row);) {
    ++number;
    if (row.empty() || row[0] == '#') continue;
    std::istringstream fields(row);
    Line line;
    std::string role;
    std::string more;
    fields >> line.name >> role >> line.digits;
    const bool is_hash = line.digits.size() == 64 &&
                         line.digits.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!is_name(line.name) || !is_hash || fields >> more) {
      // The message omits the row: it may hold a secret that was put there by mistake.
      throw InputError(kOption, file.string() + ":" + std::to_string(number) +
                                    ": is not NAME ROLE SHA-256, as `dotresize-server token` "
                                    "writes it");
    }
    line.role = role_of(role);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string line_of(const std::string& name, Role role, const std::string& digits) {
  return name + " " + role_name(role) + " " + digits + "\n";
}

/// Returns the last line of the name. Throws InputError if there is none.
Line newest_of(const std::vector<Line>& lines, const std::string& name) {
  const auto found = std::find_if(lines.rbegin(), lines.rend(),
                                  [&](const Line& line) { return line.name == name; });
  if (found == lines.rend()) throw InputError("NAME", in_quotes(name) + " has no token");
  return *found;
}

/// Returns the content without the lines of the name; comments stay.
std::string without(const std::string& content, const std::string& name) {
  std::istringstream rows(content);
  std::string kept;
  for (std::string row; std::getline(rows, row);) {
    std::istringstream fields(row);
    std::string first;
    fields >> first;
    if (first != name) kept += row + "\n";
  }
  return kept;
}

/// Replaces the file by what `change` makes of its content, which is "" if there is no file. The
/// lock is that of the file's directory: a lock of the file would be lost with its replacement.
void change_file(const fs::path& file,
                 const std::function<std::string(const std::string& content)>& change) {
  // The file that a link leads to is replaced, not the link.
  std::error_code error;
  const fs::path actual = fs::weakly_canonical(fs::absolute(file), error);
  const UniqueFd lock(::open(actual.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (error || !lock || ::flock(lock.get(), LOCK_EX) != 0) {
    throw InputError(
        kOption, file.string() + ": its directory cannot be opened: " +
                     (error ? error : std::error_code(errno, std::generic_category())).message());
  }
  std::string content;
  if (fs::exists(actual)) {
    require_private_file(kOption, actual);
    content = read_whole_file(actual, kMaxSecretBytes);
    if (!content.empty() && content.back() != '\n') content += '\n';
  }
  write_file_atomically(actual, change(content), 0600);
}

}  // namespace

Role role_of(const std::string& name) {
  const auto found = std::ranges::find(kRoles, name);
  if (found == kRoles.end()) {
    throw InputError("ROLE", in_quotes(name) + " is not one of read, submit, admin");
  }
  return static_cast<Role>(found - kRoles.begin());
}

std::string role_name(Role role) { return kRoles[static_cast<size_t>(role)]; }

std::string token_of_header(std::string_view value) {
  constexpr std::string_view kScheme = "Bearer ";
  return value.starts_with(kScheme) ? std::string(value.substr(kScheme.size())) : "";
}

Credential::Credential(const std::string& token)
    : sha256_(token.empty() ? "" : token_hash(token)) {}

Access::Access(fs::path file) : open_to_all(file.empty()), file_(std::move(file)) { reload(); }

void Access::reload() {
  if (open_to_all) return;
  require_private_file(kOption, file_);
  auto entries = std::make_shared<Entries>();
  for (Line& line : lines_of(read_whole_file(file_, kMaxSecretBytes), file_)) {
    std::string sha256;
    for (size_t i = 0; i < line.digits.size(); i += 2) {
      sha256 += static_cast<char>(std::stoi(line.digits.substr(i, 2), nullptr, 16));
    }
    entries->push_back({std::move(line.name), line.role, std::move(sha256)});
  }
  const Lock lock(mutex_);
  entries_ = std::move(entries);
  ++generation_;
}

std::shared_ptr<const Access::Entries> Access::entries() const {
  const Lock lock(mutex_);
  return entries_;
}

Caller Access::caller_of(const Credential& credential) const {
  if (open_to_all) return {};
  const std::shared_ptr<const Entries> known = entries();
  const std::string& sha256 = credential.sha256_;
  const Entry* found = nullptr;
  for (const Entry& entry : *known) {  // no early exit: the time must not reveal the match
    if (sha256.size() == entry.sha256.size() &&
        CRYPTO_memcmp(sha256.data(), entry.sha256.data(), sha256.size()) == 0) {
      found = &entry;
    }
  }
  if (found != nullptr) return {found->name, found->role};
  throw ApiError(grpc::StatusCode::UNAUTHENTICATED, "BAD_TOKEN",
                 credential.is_empty() ? "the call carries no token, but this server requires one "
                                         "(DOTRESIZE_TOKEN_FILE)"
                                       : "the call's token is unknown to this server: it may have "
                                         "been replaced");
}

std::optional<Role> Access::role_of_name(const std::string& name) const {
  if (open_to_all) return Role::kAdmin;
  std::optional<Role> highest;
  for (const Entry& entry : *entries()) {
    if (entry.name == name) highest = std::max(highest, std::optional(entry.role));
  }
  return highest;
}

void require_role(const Caller& caller, Role least) {
  if (caller.role >= least) return;
  throw ApiError(grpc::StatusCode::PERMISSION_DENIED, "ROLE_TOO_LOW",
                 "'" + caller.name + "' has the role " + role_name(caller.role) + "; this takes " +
                     role_name(least));
}

bool may_change(const Caller& caller, const std::string& owner) {
  return caller.role == Role::kAdmin || (caller.role == Role::kSubmit && caller.name == owner);
}

void require_owner(const Caller& caller, const std::string& owner) {
  if (may_change(caller, owner)) return;
  throw ApiError(grpc::StatusCode::PERMISSION_DENIED, "NOT_THE_OWNER",
                 "the job belongs to another user; only its owner and admins may do this");
}

OutputRights rights_of(const Access& access, const std::string& owner, const std::string& job_id,
                       int attempt) {
  // A job without an owner was created without tokens: it belongs to the admins.
  const bool any = owner.empty() || access.role_of_name(owner) == Role::kAdmin;
  return {{job_id, attempt, owner}, any};
}

void add_token(const fs::path& file, const std::string& name, Role role, const ShowSecret& show) {
  if (!is_name(name)) {
    throw InputError("NAME", in_quotes(name) + " is not 1 to 64 characters of [A-Za-z0-9._@-]");
  }
  const SecretToken token = make_secret_token();
  change_file(file, [&](const std::string& content) {
    for (const Line& line : lines_of(content, file)) {
      if (line.name != name) continue;
      throw InputError("NAME", "'" + name + "' already has a token; --rotate issues a new one");
    }
    show(token.secret);
    return content + line_of(name, role, hex_digits(token.sha256));
  });
}

void rotate_token(const fs::path& file, const std::string& name, const ShowSecret& show) {
  const SecretToken token = make_secret_token();
  change_file(file, [&](const std::string& content) {
    const Line newest = newest_of(lines_of(content, file), name);
    show(token.secret);
    return without(content, name) + line_of(name, newest.role, newest.digits) +
           line_of(name, newest.role, hex_digits(token.sha256));
  });
}

void revoke_tokens(const fs::path& file, const std::string& name) {
  change_file(file, [&](const std::string& content) {
    newest_of(lines_of(content, file), name);
    return without(content, name);
  });
}

std::string token_hash(const std::string& secret) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

SecretToken make_secret_token() {
  SecretToken token;
  token.secret = hex_digits(random_bytes(32));
  token.sha256 = token_hash(token.secret);
  return token;
}

bool matches_token(const std::string& secret, const std::string& sha256) {
  const std::string hash = token_hash(secret);
  return sha256.size() == hash.size() &&
         CRYPTO_memcmp(hash.data(), sha256.data(), hash.size()) == 0;
}

}  // namespace dotresize
