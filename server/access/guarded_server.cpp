#include "server/access/guarded_server.h"

#include <fcntl.h>
#include <grpcpp/health_check_service_interface.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/errors.h"
#include "dotresize/v1/jobs.grpc.pb.h"
#include "dotresize/v1/workers.grpc.pb.h"
#include "server/access/endpoint.h"
#include "server/api_error.h"
#include "server/http/metrics.h"
#include "server/store/files.h"

namespace dotresize {
namespace {

constexpr int kMaxRequestBytes = 1 << 20;
constexpr size_t kMaxMemory = size_t{256} << 20;  // bytes of messages and buffers
constexpr int kMaxStreamsPerConnection = 100;
constexpr int kPingAfterMs = 30'000;
constexpr int kPingTimeoutMs = 10'000;
constexpr int kHandshakeTimeoutMs = 10'000;
constexpr int kBacklog = 512;
constexpr rlim_t kMaxDescriptors = 4096;
constexpr rlim_t kLeastDescriptors = 512;
constexpr std::chrono::milliseconds kPauseWithoutDescriptors{50};
constexpr std::chrono::seconds kPatienceWithConnections{1};
constexpr std::chrono::seconds kWarningInterval{10};

/// Returns true for the status that gRPC itself gives a call whose request it cannot parse:
/// INTERNAL, of a stream UNIMPLEMENTED. A service's own errors have details.
bool is_of_malformed_request(const grpc::Status& status) {
  return status.error_details().empty() && (status.error_code() == grpc::StatusCode::INTERNAL ||
                                            status.error_code() == grpc::StatusCode::UNIMPLEMENTED);
}

/// Blames the caller for a malformed request, and counts and times the call.
class CallEnd final : public grpc::experimental::Interceptor {
 public:
  /// `metrics`: null if the call is not counted.
  CallEnd(Metrics* metrics, std::string method, bool unary)
      : metrics_(metrics), method_(std::move(method)), unary_(unary) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS)) {
      if (is_of_malformed_request(batch->GetSendStatus())) {
        batch->ModifySendStatus(answer(method_.c_str(), [] {
          throw invalid_argument("request", "is not a message of this method's type");
        }));
      }
      const std::chrono::duration<double> time = Clock::now() - begin_;
      if (metrics_ != nullptr) {
        metrics_->count_call(method_, batch->GetSendStatus().error_code(),
                             unary_ ? std::optional(time.count()) : std::nullopt);
      }
    }
    batch->Proceed();
  }

 private:
  using Clock = std::chrono::steady_clock;

  Metrics* const metrics_;
  const std::string method_;
  const bool unary_;
  const Clock::time_point begin_ = Clock::now();
};

/// Gives the calls of the Jobs and Workers services a CallEnd. Those of the Jobs service are
/// counted.
class CallEnds final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  /// `metrics` outlives the server; may be null.
  explicit CallEnds(Metrics* metrics) : metrics_(metrics) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override {
    // Unknown methods are not counted: a client could create any number of metric labels with them.
    const std::string_view name = call->method();  // "/SERVICE/METHOD"
    const size_t end = name.rfind('/');
    const std::string service(name.substr(1, end - 1));
    const bool is_counted = service == v1::Jobs::service_full_name();
    if (!is_counted && service != v1::Workers::service_full_name()) return nullptr;
    const std::string method(name.substr(end + 1));
    const auto* known =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(service);
    if (known == nullptr || known->FindMethodByName(method) == nullptr) return nullptr;
    return new CallEnd(is_counted ? metrics_ : nullptr, method,
                       call->type() == grpc::experimental::ServerRpcInfo::Type::UNARY);
  }

 private:
  Metrics* const metrics_;
};

UniqueFd open_spare() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

void bind_and_listen(const UniqueFd& socket, const sockaddr* address, socklen_t length,
                     const std::string& name) {
  if (!socket || ::bind(socket.get(), address, length) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    throw_errno("cannot listen on " + name);
  }
}

/// Returns the local port, or the path of a Unix socket. A listener and the connections that it
/// accepted have the same name. Empty if `descriptor` is not a socket.
std::string local_name(int descriptor) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "";
  switch (address.ss_family) {
    case AF_INET:
    case AF_INET6:
      return std::to_string(ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port));
    case AF_UNIX:
      return reinterpret_cast<const sockaddr_un&>(address).sun_path;
    default:
      return "";
  }
}

}  // namespace

Listeners listen_on_tcp(const std::string& host, int port) {
  Listeners listeners;
  listeners.port = port;
  const std::string name = host_of({host, port});
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    throw std::runtime_error("cannot listen on " + name + ": " + ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  for (addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    constexpr int kOn = 1;
    UniqueFd socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket && errno == EAFNOSUPPORT) continue;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof(kOn));
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof(kOn));
    if (at->ai_family == AF_INET6) {
      ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &kOn, sizeof(kOn));
    }
    // All addresses share the port that the first one got.
    auto* inet = reinterpret_cast<sockaddr_in*>(at->ai_addr);
    inet->sin_port = htons(static_cast<uint16_t>(listeners.port));
    bind_and_listen(socket, at->ai_addr, at->ai_addrlen, host + ":" + std::to_string(port));
    sockaddr_storage bound{};
    socklen_t length = sizeof(bound);
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
      throw_errno("cannot read the port");
    }
    // IPv4 and IPv6 addresses have the port at the same offset.
    listeners.port = ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port);
    listeners.sockets.push_back(std::move(socket));
  }
  if (listeners.sockets.empty()) throw std::runtime_error("cannot listen on " + host);
  return listeners;
}

Listeners listen_on_unix(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  if (name.size() >= sizeof(address.sun_path)) {
    throw std::runtime_error(
        "the state directory's name is too long for the address of a socket: " + name + " has " +
        std::to_string(name.size()) + " bytes, at most " +
        std::to_string(sizeof(address.sun_path) - 1) + " are possible");
  }
  std::memcpy(address.sun_path, name.data(), name.size());
  std::filesystem::remove(path);
  Listeners listeners;
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  bind_and_listen(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address), name);
  listeners.sockets.push_back(std::move(socket));
  return listeners;
}

int raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) throw_errno("RLIMIT_NOFILE");
  if (limit.rlim_cur < kMaxDescriptors) {
    limit.rlim_cur = std::min(limit.rlim_max, kMaxDescriptors);
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) throw_errno("RLIMIT_NOFILE");
  }
  if (limit.rlim_cur < kLeastDescriptors) {
    throw InputError("the limit of open files",
                     std::to_string(limit.rlim_cur) + " is too low: at least " +
                         std::to_string(kLeastDescriptors) +
                         " are needed (ulimit -n, LimitNOFILE of systemd)");
  }
  return static_cast<int>(std::min(limit.rlim_cur, kMaxDescriptors));
}

GuardedServer::GuardedServer(Listeners listeners, const GuardedServerOptions& options)
    : listeners_(std::move(listeners)),
      max_descriptors_(options.max_descriptors),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      spare_(open_spare()) {
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(options.max_threads);
  quota.Resize(kMaxMemory);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  // Refuses compression: a small request must not become large in memory.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 4);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingAfterMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  using ConnectionType = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(ConnectionType::FROM_FD,
                                                                   options.credentials);
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
  creators.push_back(std::make_unique<CallEnds>(options.metrics));
  builder.experimental().SetInterceptorCreators(std::move(creators));
  server_ = builder.BuildAndStart();
  if (!server_) throw std::runtime_error("gRPC does not start");
  thread_ = std::thread([this] { accept_loop(); });
}

GuardedServer::~GuardedServer() { shutdown(std::chrono::milliseconds(0)); }

void GuardedServer::set_serving(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  for (const char* service : {v1::Jobs::service_full_name(), v1::Workers::service_full_name()}) {
    health->SetServingStatus(service, serving);
  }
  health->SetServingStatus(serving);
}

void GuardedServer::shutdown(std::chrono::milliseconds grace) {
  if (!thread_.joinable()) return;
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
  std::future<void> ended = std::async(std::launch::async, [&] {
    server_->Shutdown(std::chrono::system_clock::now() + grace);
    server_->Wait();
  });
  if (ended.wait_for(grace + kPatienceWithConnections) == std::future_status::ready) return;
  // gRPC keeps a connection until everything is written, so one whose peer reads nothing would
  // block the shutdown.
  const int cut = cut_connections();
  if (cut > 0) spdlog::warn("stopping: closed {} connections whose readers had stalled", cut);
}

int GuardedServer::cut_connections() const {
  std::set<std::string> names;
  std::set<int> listening;
  for (const UniqueFd& socket : listeners_.sockets) {
    names.insert(local_name(socket.get()));
    listening.insert(socket.get());
  }
  int cut = 0;
  for (int descriptor = 0; descriptor < max_descriptors_; ++descriptor) {
    const std::string name = local_name(descriptor);
    if (name.empty() || !names.contains(name) || listening.contains(descriptor)) continue;
    ::shutdown(descriptor, SHUT_RDWR);
    ++cut;
  }
  return cut;
}

void GuardedServer::accept_loop() {
  std::vector<pollfd> waiting{{stop_.get(), POLLIN, 0}};
  for (const UniqueFd& socket : listeners_.sockets) waiting.push_back({socket.get(), POLLIN, 0});
  std::chrono::steady_clock::time_point next_warning;
  while (true) {
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;  // EINTR
    if (waiting[0].revents != 0) return;
    for (size_t i = 1; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      const int listener = waiting[i].fd;
      UniqueFd connection(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      const bool exhausted = !connection && (errno == EMFILE || errno == ENFILE);
      if (!connection && !exhausted) continue;
      // Descriptor numbers are given out lowest first, so this one tells how many are in use.
      if (connection && connection.get() < max_descriptors_) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
        parameters.fd = connection.release();
        acceptor_->HandleNewConnection(&parameters);
        continue;
      }
      if (exhausted) {
        spare_ = UniqueFd();
        const int unwanted = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (unwanted >= 0) ::close(unwanted);
        spare_ = open_spare();
      }
      if (const auto now = std::chrono::steady_clock::now(); now >= next_warning) {
        next_warning = now + kWarningInterval;
        spdlog::warn("too many connections for {} open files (LimitNOFILE): new ones are closed",
                     max_descriptors_);
      }
      if (exhausted) std::this_thread::sleep_for(kPauseWithoutDescriptors);
    }
  }
}

}  // namespace dotresize
