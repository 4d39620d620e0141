#include "server/access/access.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/text/printable.h"
#include "server/api_error.h"
#include "server/launch/attempt.h"
#include "server/store/files.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

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

std::vector<Line> read_lines(const fs::path& file) {
  std::vector<Line> lines;
  std::istringstream text(read_whole_file(file, kMaxSecretBytes));
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

Access::Access(fs::path file) : open_to_all(file.empty()), file_(std::move(file)) { reload(); }

void Access::reload() {
  if (open_to_all) return;
  require_private_file(kOption, file_);
  auto entries = std::make_shared<Entries>();
  for (Line& line : read_lines(file_)) {
    std::string sha256;
    for (size_t i = 0; i < line.digits.size(); i += 2) {
      sha256 += static_cast<char>(std::stoi(line.digits.substr(i, 2), nullptr, 16));
    }
    entries->push_back({{std::move(line.name), line.role}, std::move(sha256)});
  }
  const std::lock_guard lock(mutex_);
  entries_ = std::move(entries);
}

Caller Access::authenticate(const std::string& token) const {
  if (open_to_all) return {};
  std::shared_ptr<const Entries> entries;
  {
    const std::lock_guard lock(mutex_);
    entries = entries_;
  }
  const Entry* found = nullptr;
  for (const Entry& entry : *entries) {  // no early exit: the time must not reveal the match
    if (matches_token(token, entry.sha256)) found = &entry;
  }
  if (found != nullptr) return found->caller;
  throw ApiError(grpc::StatusCode::UNAUTHENTICATED, "BAD_TOKEN",
                 token.empty() ? "the call carries no token, but this server requires one "
                                 "(DOTRESIZE_TOKEN_FILE)"
                               : "the call's token is unknown to this server: it may have "
                                 "been replaced");
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

std::string add_token(const fs::path& file, const std::string& name, Role role) {
  if (!is_name(name)) {
    throw InputError("NAME", in_quotes(name) + " is not 1 to 64 characters of [A-Za-z0-9._@-]");
  }
  std::string content;
  if (fs::exists(file)) {
    require_private_file(kOption, file);
    for (const Line& line : read_lines(file)) {
      if (line.name != name) continue;
      throw InputError("NAME", "'" + name + "' already has a token; --rotate issues a new one");
    }
    content = read_whole_file(file, kMaxSecretBytes);
    if (!content.empty() && content.back() != '\n') content += '\n';
  }
  const AttemptToken token = make_attempt_token();
  write_file_atomically(file, content + line_of(name, role, hex_digits(token.sha256)), 0600);
  return token.secret;
}

std::string rotate_token(const fs::path& file, const std::string& name) {
  require_private_file(kOption, file);
  std::optional<Line> newest;
  for (const Line& line : read_lines(file)) {
    if (line.name == name) newest = line;
  }
  if (!newest) throw InputError("NAME", in_quotes(name) + " has no token to rotate");
  std::istringstream rows(read_whole_file(file, kMaxSecretBytes));
  std::string content;
  for (std::string row; std::getline(rows, row);) {
    std::istringstream fields(row);
    std::string first;
    fields >> first;
    if (first != name) content += row + "\n";
  }
  const AttemptToken token = make_attempt_token();
  content += line_of(name, newest->role, newest->digits);
  content += line_of(name, newest->role, hex_digits(token.sha256));
  write_file_atomically(file, content, 0600);
  return token.secret;
}

}  // namespace dotresize
