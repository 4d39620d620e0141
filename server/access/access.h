#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

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

/// Authenticated caller.
struct Caller {
  std::string name;  ///< empty if the server has no tokens
  Role role = Role::kAdmin;
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
  Caller authenticate(const std::string& token) const;

 private:
  struct Entry {
    Caller caller;
    std::string sha256;  ///< 32 bytes
  };

  using Entries = std::vector<Entry>;

  const std::filesystem::path file_;
  mutable std::mutex mutex_;  ///< guards the pointer entries_
  std::shared_ptr<const Entries> entries_;
};

/// Throws PERMISSION_DENIED unless the caller has at least this role.
void require_role(const Caller& caller, Role least);

/// Returns true if the caller may cancel, resume and delete a job of this owner.
bool may_change(const Caller& caller, const std::string& owner);

/// Throws PERMISSION_DENIED unless may_change().
void require_owner(const Caller& caller, const std::string& owner);

/// Adds a new token to `file` (created with mode 0600 if missing) and returns the secret, which is
/// stored nowhere. Throws InputError for a name that is taken or malformed.
std::string add_token(const std::filesystem::path& file, const std::string& name, Role role);

/// Adds a new token, with the same role, for a name that has one, and returns the secret. The
/// newest old token stays valid until the next rotation, so that clients can change over; older
/// ones are removed. Throws InputError for a name without a token.
std::string rotate_token(const std::filesystem::path& file, const std::string& name);

}  // namespace dotresize
