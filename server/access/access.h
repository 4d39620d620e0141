#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/output_owner.h"
#include "base/process/mutex.h"

namespace dotresize {

/// Permissions of a client. Each role includes the ones before it.
enum class Role {
  kRead,    ///< reads all jobs and logs
  kSubmit,  ///< creates jobs; cancels, resumes and deletes its own
  kAdmin,   ///< cancels, resumes and deletes all jobs; drains the server
};

/// Parses "read", "submit" or "admin". Throws InputError for any other.
Role role_of(const std::string& name);
std::string role_name(Role role);

/// Authenticated caller, as the tokens are now. It cannot be copied, because it must not outlast
/// the call: what lasts keeps the Credential and asks Access again.
struct Caller {
  Caller() = default;
  Caller(std::string name_, Role role_) : name(std::move(name_)), role(role_) {}
  Caller(Caller&&) = default;
  Caller& operator=(Caller&&) = default;

  std::string name;  ///< empty if the server has no tokens
  Role role = Role::kAdmin;
};

/// Proof that a caller has shown: the hash of a token. It says nothing about name and role, which
/// the token's line in the file has.
class Credential {
 public:
  /// No token.
  Credential() = default;
  explicit Credential(const std::string& token);

  bool is_empty() const { return sha256_.empty(); }

 private:
  friend class Access;

  std::string sha256_;  ///< 32 bytes
};

/// Returns the secret of the header value "Bearer SECRET"; empty for any other value.
std::string token_of_header(std::string_view value);

/// Clients that the server knows by their tokens.
class Access {
 public:
  /// `file` has one line "NAME ROLE SHA-256" per token. Empty path: every caller is an admin.
  /// Throws InputError for a file that is missing, malformed or open to other users.
  explicit Access(std::filesystem::path file);

  /// Reads the file again. Throws like the constructor, and then changes nothing. Thread-safe.
  void reload();

  const bool open_to_all;  ///< there are no tokens

  /// Throws UNAUTHENTICATED for an unknown token. The run time does not reveal which tokens exist.
  Caller caller_of(const Credential& credential) const;
  /// Returns the highest role of the tokens that this NAME has now; nothing if it has none. Without
  /// tokens everybody is an admin.
  std::optional<Role> role_of_name(const std::string& name) const;
  /// Number of the current tokens; another one after each reload().
  uint64_t generation() const { return generation_; }

 private:
  struct Entry {
    std::string name;
    Role role = Role::kRead;
    std::string sha256;  ///< 32 bytes
  };

  using Entries = std::vector<Entry>;

  std::shared_ptr<const Entries> entries() const;

  const std::filesystem::path file_;
  std::atomic<uint64_t> generation_ = 0;
  mutable Mutex mutex_;
  std::shared_ptr<const Entries> entries_ DOTRESIZE_GUARDED_BY(mutex_);
};

/// Throws PERMISSION_DENIED unless the caller has at least this role.
void require_role(const Caller& caller, Role least);

/// Returns true if the caller may cancel, resume and delete a job of this owner.
bool may_change(const Caller& caller, const std::string& owner);

/// Throws PERMISSION_DENIED unless may_change().
void require_owner(const Caller& caller, const std::string& owner);

/// Rights of a job of this owner over outputs that exist: those that the owner has now, whoever has
/// resumed the job. `job_id` is empty before it is created.
OutputRights rights_of(const Access& access, const std::string& owner,
                       const std::string& job_id = "", int attempt = 0);

// Changes of a file of tokens. Any number of programs may make them at the same time: each reads
// the file under a lock and replaces it in one step.

/// Shows a new secret. It is called before the token is in the file, and throws if nobody has seen
/// the secret: the file then stays as it is.
using ShowSecret = std::function<void(const std::string& secret)>;

/// Adds a new token to `file` (created with mode 0600 if missing). The secret is stored nowhere.
/// Throws InputError for a name that is taken or malformed.
void add_token(const std::filesystem::path& file, const std::string& name, Role role,
               const ShowSecret& show);

/// Adds a new token, with the same role, for a name that has one. The
/// newest old token stays valid until the next rotation, so that clients can change over; older
/// ones are removed. Throws InputError for a name without a token.
void rotate_token(const std::filesystem::path& file, const std::string& name,
                  const ShowSecret& show);

/// Removes all tokens of a name. Throws InputError for a name without a token.
void revoke_tokens(const std::filesystem::path& file, const std::string& name);

/// Secret with which clients, visitors and the processes of an attempt authenticate. Only its hash
/// is stored, with one exception: ranks on other machines read the secret from a private file,
/// which is removed with the attempt.
struct SecretToken {
  std::string secret;  ///< 64 hexadecimal digits
  std::string sha256;  ///< 32 bytes
};

SecretToken make_secret_token();

/// Returns the SecretToken.sha256 of a secret.
std::string token_hash(const std::string& secret);

/// True if `secret` has this SHA-256; compares in constant time.
bool matches_token(const std::string& secret, const std::string& sha256);

}  // namespace dotresize
