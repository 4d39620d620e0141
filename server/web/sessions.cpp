#include "server/web/sessions.h"

#include "server/access/secret_token.h"

namespace dotresize {

std::string Sessions::open(const std::string& name, const Credential& credential,
                           Clock::time_point now) {
  const SecretToken id = make_secret_token();
  const Session session{credential, make_secret_token().secret};
  const Lock lock(mutex_);
  std::erase_if(entries_,
                [&](const auto& entry) { return now - entry.second.opened >= kLifetime; });
  size_t count = 0;
  auto oldest = entries_.end();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (at->second.name != name) continue;
    ++count;
    if (oldest == entries_.end() || at->second.opened < oldest->second.opened) oldest = at;
  }
  if (count >= kMaxOfCaller) entries_.erase(oldest);
  entries_[id.sha256] = {session, name, now};
  return id.secret;
}

std::optional<Sessions::Session> Sessions::find(const std::string& id,
                                                Clock::time_point now) const {
  const Lock lock(mutex_);
  const auto found = entries_.find(token_hash(id));
  if (found == entries_.end() || now - found->second.opened >= kLifetime) return std::nullopt;
  return found->second.session;
}

void Sessions::close(const std::string& id) {
  const Lock lock(mutex_);
  entries_.erase(token_hash(id));
}

}  // namespace dotresize
