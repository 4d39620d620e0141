#pragma once

#include <grpcpp/server_context.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dotresize {

/// What a client may do; each role may do what those before it may.
enum class Role {
  kRead,    ///< look at all jobs and logs
  kSubmit,  ///< make jobs, and cancel, resume and delete its own
  kAdmin,   ///< the same with everybody's
};

/// "read", "submit", "admin". Throws InputError for any other.
Role role_of(const std::string& name);
std::string role_name(Role role);

/// Who calls.
struct Caller {
  std::string name;  ///< empty if the server has no tokens
  Role role = Role::kAdmin;
};

/// The secret of the value "Bearer SECRET" of a header, else empty.
std::string token_of_header(std::string_view value);

/// The secret of the one "authorization: Bearer SECRET" of a call, else empty.
std::string bearer_token(const grpc::ServerContextBase& context);

/// The clients that the server knows by their tokens.
class Access {
 public:
  /// `file` has a line "NAME ROLE SHA-256" for each token; empty: whoever reaches the server is an
  /// admin. Throws InputError for a file that is missing, malformed or open to other users.
  explicit Access(std::filesystem::path file);

  /// Reads the file again; throws as the constructor, and changes nothing then. Safe to use while
  /// others call.
  void reload();

  bool open_to_all() const { return open_to_all_; }

  /// UNAUTHENTICATED without a token that is known. The time that it takes says nothing of those.
  Caller authenticate(const std::string& token) const;

 private:
  struct Entry {
    Caller caller;
    std::string sha256;  ///< 32 bytes
  };

  using Entries = std::vector<Entry>;
  std::shared_ptr<const Entries> entries() const;

  const std::filesystem::path file_;
  const bool open_to_all_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Entries> entries_;
};

/// PERMISSION_DENIED unless the caller has at least this role.
void require_role(const Caller& caller, Role least);

/// Whether the caller may cancel, resume and delete a job of this owner.
bool may_change(const Caller& caller, const std::string& owner);

/// PERMISSION_DENIED unless the job is the caller's own, or the caller an admin.
void require_owner(const Caller& caller, const std::string& owner);

/// Adds a line for a new token to `file`, which is made (0600) if it is missing, and returns the
/// secret, which is stored nowhere. Throws InputError for a name that is taken or malformed.
std::string add_token(const std::filesystem::path& file, const std::string& name, Role role);

/// A new token for a name that has one, with its role. Of the tokens that it has the newest one
/// stays good until the next rotation, so that clients can change over. Returns the secret. Throws
/// InputError for a name without a token.
std::string rotate_token(const std::filesystem::path& file, const std::string& name);

}  // namespace dotresize
