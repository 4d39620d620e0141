#include "server/access/guarded_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grpcpp/health_check_service_interface.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/errors.h"
#include "dotresize/v1/jobs.grpc.pb.h"
#include "dotresize/v1/workers.grpc.pb.h"
#include "server/access/request_budget.h"
#include "server/common/api_error.h"
#include "server/store/files.h"

namespace dotresize {
namespace {

constexpr int kMaxRequestBytes = 1 << 20;
constexpr size_t kMaxMemory = size_t{256} << 20;  // bytes of messages and buffers
constexpr int kMaxStreamsPerConnection = 100;
constexpr int kPingAfterMs = 30'000;
constexpr int kPingTimeoutMs = 10'000;
constexpr int kHandshakeTimeoutMs = 10'000;
constexpr rlim_t kMaxDescriptors = 4096;
constexpr rlim_t kLeastDescriptors = 512;
constexpr std::chrono::milliseconds kPauseWithoutDescriptors{50};
constexpr std::chrono::seconds kPatienceWithConnections{1};
constexpr std::chrono::seconds kWarningInterval{10};
constexpr std::chrono::milliseconds kTableLook{1000};
// Share of all connections that one address may have; share of the descriptors that is kept free by
// cutting idle connections.
constexpr int kShareOfOne = 4;
// Share of the threads that calls of one address may hold.
constexpr int kThreadShareOfOne = 2;
constexpr int kFreeShare = 8;

/// Returns true for the status that gRPC itself gives a call whose request it cannot parse:
/// INTERNAL, of a stream UNIMPLEMENTED. A service's own errors have details.
bool is_of_malformed_request(const grpc::Status& status) {
  return status.error_details().empty() && (status.error_code() == grpc::StatusCode::INTERNAL ||
                                            status.error_code() == grpc::StatusCode::UNIMPLEMENTED);
}

/// Follows a call from its beginning to its end, which is when its answer has been sent. Blames the
/// caller for a malformed request, and counts and times the call.
class CallWatch final : public grpc::experimental::Interceptor {
 public:
  /// Facts about the method of a call.
  struct Method {
    std::string_view name;    ///< without its service
    bool is_ours = false;     ///< part of the services Jobs and Workers
    bool is_counted = false;  ///< part of the service Jobs
  };

  /// `resources` may be null, `count_call` empty.
  CallWatch(ConnectionTable& connections, RequestResources* resources,
            const CallCounter& count_call, const Method& method,
            grpc::experimental::ServerRpcInfo& call)
      : connections_(connections),
        resources_(resources),
        count_call_(count_call),
        call_(call.server_context()),
        method_(method),
        unary_(call.type() == grpc::experimental::ServerRpcInfo::Type::UNARY) {}
  ~CallWatch() override {
    if (begun_) connections_.end_call(this);
    if (resources_ != nullptr) resources_->answered(call_);
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    using Hook = grpc::experimental::InterceptionHookPoints;
    if (!begun_) {  // the peer is not known before the first hook
      begun_ = true;
      connections_.begin_call(this, call_->peer(), /*holds_thread=*/unary_);
    }
    if (batch->QueryInterceptionHookPoint(Hook::PRE_SEND_STATUS)) {
      connections_.answer_call(this);
      if (method_.is_ours && is_of_malformed_request(batch->GetSendStatus())) {
        batch->ModifySendStatus(answer(std::string(method_.name).c_str(), [] {
          throw invalid_argument("request", "is not a message of this method's type");
        }));
      }
      count(batch->GetSendStatus().error_code());
    }
    batch->Proceed();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void count(int code) {
    if (!method_.is_counted || !count_call_) return;
    const std::chrono::duration<double> time = Clock::now() - begin_;
    count_call_(std::string(method_.name), code,
                unary_ ? std::optional(time.count()) : std::nullopt);
  }

  ConnectionTable& connections_;
  RequestResources* const resources_;
  const CallCounter& count_call_;
  grpc::ServerContextBase* const call_;
  const Method method_;
  const bool unary_;
  const Clock::time_point begin_ = Clock::now();
  bool begun_ = false;
};

/// Makes a CallWatch for each call.
class CallWatches final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  /// All outlive the server; `resources` may be null, `count_call` empty.
  CallWatches(ConnectionTable& connections, RequestResources* resources, CallCounter count_call)
      : connections_(connections), resources_(resources), count_call_(std::move(count_call)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override {
    return new CallWatch(connections_, resources_, count_call_, method_of(call->method()), *call);
  }

 private:
  /// Unknown methods are not counted: a client could create any number of metric labels with them.
  static CallWatch::Method method_of(std::string_view name) {
    const size_t end = name.rfind('/');  // "/SERVICE/METHOD"
    if (end == std::string_view::npos || end == 0) return {};
    const std::string service(name.substr(1, end - 1));
    const bool of_jobs = service == v1::Jobs::service_full_name();
    if (!of_jobs && service != v1::Workers::service_full_name()) return {};
    const auto* known =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(service);
    name.remove_prefix(end + 1);
    if (known == nullptr || known->FindMethodByName(std::string(name)) == nullptr) return {};
    return {name, true, of_jobs};
  }

  ConnectionTable& connections_;
  RequestResources* const resources_;
  const CallCounter count_call_;
};

UniqueFd open_spare() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

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
      connections_(static_cast<size_t>(options.max_descriptors / kShareOfOne),
                   static_cast<size_t>(options.max_threads / kThreadShareOfOne)),
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
  creators.push_back(
      std::make_unique<CallWatches>(connections_, options.resources, options.count_call));
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

Verdict GuardedServer::check_connections() const {
  const auto since = Clock::now() - last_refusal_.load();
  if (since > kWarningInterval) return {};
  return Verdict::with_fault("new ones are closed: too many are in use");
}

void GuardedServer::accept_loop() {
  std::vector<pollfd> waiting{{stop_.get(), POLLIN, 0}};
  for (const UniqueFd& socket : listeners_.sockets) waiting.push_back({socket.get(), POLLIN, 0});
  Clock::time_point next_look;
  while (true) {
    const int ready = ::poll(waiting.data(), waiting.size(), static_cast<int>(kTableLook.count()));
    if (const auto now = Clock::now(); now >= next_look) {
      next_look = now + kTableLook;
      const size_t stalled = connections_.cut_stalled();
      if (stalled > 0) spdlog::warn("closed {} connections whose readers had stalled", stalled);
    }
    if (ready <= 0) continue;  // nothing, or EINTR
    if (waiting[0].revents != 0) return;
    for (size_t i = 1; i < waiting.size(); ++i) {
      if (waiting[i].revents != 0) accept(waiting[i].fd);
    }
  }
}

void GuardedServer::accept(int listener) {
  UniqueFd connection(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool exhausted = !connection && (errno == EMFILE || errno == ENFILE);
  if (!connection && !exhausted) return;
  // Descriptor numbers are given out lowest first, so this one tells how many are in use.
  if (exhausted || connection.get() >= max_descriptors_ - max_descriptors_ / kFreeShare) {
    connections_.make_room();
  }
  const bool full = exhausted || connection.get() >= max_descriptors_;
  if (!full) {
    const std::optional<Peer> peer = peer_of(connection.get());  // nullopt: a Unix socket
    if (!peer || connections_.add(connection.get(), *peer)) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
      parameters.fd = connection.release();
      acceptor_->HandleNewConnection(&parameters);
      return;
    }
  }
  if (exhausted) {
    spare_ = UniqueFd();
    const int unwanted = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (unwanted >= 0) ::close(unwanted);
    spare_ = open_spare();
  }
  const Clock::time_point now = Clock::now();
  if (full) last_refusal_ = now;
  if (now >= next_warning_) {
    next_warning_ = now + kWarningInterval;
    spdlog::warn("too many connections are in use, {}: new ones are closed",
                 full ? fmt::format("for {} open files (LimitNOFILE)", max_descriptors_)
                      : "all of one address");
  }
  if (exhausted) std::this_thread::sleep_for(kPauseWithoutDescriptors);
}

}  // namespace dotresize
