#include <arpa/inet.h>
#include <httplib.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/files/unique_fd.h"
#include "server/http/http_server.h"
#include "tests/fuzz/targets.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

constexpr size_t kMaxAnswer = size_t{64} << 10;

/// Connects, also if a signal interrupts it: libFuzzer's timer sends some. Sets errno.
bool connects(int socket, const sockaddr_in& to) {
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) return true;
  if (errno != EINTR) return false;
  pollfd end{socket, POLLOUT, 0};
  if (TEMP_FAILURE_RETRY(::poll(&end, 1, /*timeout=*/-1)) != 1) return false;
  socklen_t size = sizeof(errno);
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &errno, &size) == 0 && errno == 0;
}

/// A server that watches nothing, with a page for each URL pattern of the job pages.
class Watched {
 public:
  /// Returns the complete answer to these bytes.
  std::string answer(const std::string& bytes) const {
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    // Each connection has another source address, because ports stay taken for a minute.
    static uint32_t connections = 0;
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + ++connections % 0xffff);
    require(::bind(socket.get(), reinterpret_cast<sockaddr*>(&from), sizeof(from)) == 0,
            "loopback has many addresses");
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(url_.substr(url_.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool connected = connects(socket.get(), to);
    require(connected, "the server accepts connections: " + std::generic_category().message(errno));
    [[maybe_unused]] const auto sent =
        TEMP_FAILURE_RETRY(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
    ::shutdown(socket.get(), SHUT_WR);
    std::string answer;
    std::array<char, 4096> part{};
    const auto receive = [&] {
      return TEMP_FAILURE_RETRY(::recv(socket.get(), part.data(), part.size(), 0));
    };
    for (ssize_t got = 0; (got = receive()) > 0;) {
      answer.append(part.data(), static_cast<size_t>(got));
      require(answer.size() < kMaxAnswer, "answers are not larger than their pages");
    }
    return answer;
  }

 private:
  std::filesystem::path tokens() const {
    const auto file = dir_.write("tokens", "");
    std::filesystem::permissions(
        file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    add_token(file, "fuzz", Role::kRead, [](const std::string&) {});
    return file;
  }

  TemporaryDirectory dir_;
  Access access_{tokens()};
  AuditLog audit_{dir_.path() / "audit.log"};
  Certificates certificates_{""};
  CallGate gate_{access_, audit_, /*max_rate=*/0};
  HttpServer server_{
      {"127.0.0.1", 0},
      certificates_,
      gate_,
      {.health = [] { return std::vector<HealthCheck>{{.part = "queue", .verdict = {}}}; },
       .metrics =
           [] {
             require(false, "metrics are for those who have a token");
             return std::string();
           },
       .add_pages =
           [](httplib::Server& server) {
             server.Get(R"(/jobs/([^/]+))",
                        [](const httplib::Request& request, httplib::Response& response) {
                          response.set_content(request.matches[1], "text/plain");
                        });
           }}};
  std::string url_ = server_.url();
};

}  // namespace

void fuzz_http(const std::string& bytes) {
  spdlog::set_level(spdlog::level::off);
  static const Watched server;
  const std::string answer = server.answer(bytes);
  require(answer.empty() || answer.starts_with("HTTP/1."), "what is answered is HTTP");
}

}  // namespace dotresize
