#include "server/access/connection_table.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <list>

namespace dotresize {
namespace {

/// Both ends of a TCP connection.
struct Pair {
  UniqueFd client;
  UniqueFd server;

  std::string name() const { return peer_of(server.get())->in_grpc(); }
};

class Connections : public ::testing::Test {
 protected:
  Pair connect(const char* from) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &address.sin_addr);
    Pair pair;
    pair.client = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(pair.client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    address.sin_port = htons(static_cast<uint16_t>(listeners_.port));
    EXPECT_EQ(::connect(pair.client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
              0);
    pollfd polled{listeners_.sockets.front().get(), POLLIN, 0};
    EXPECT_EQ(::poll(&polled, 1, 10'000), 1);
    pair.server = UniqueFd(::accept(polled.fd, nullptr, nullptr));
    return pair;
  }

  bool add(const Pair& pair) { return table_.add(pair.server.get(), *peer_of(pair.server.get())); }

  static bool is_cut(const Pair& pair) {
    char byte = 0;
    return ::recv(pair.client.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

  Listeners listeners_ = listen_on_tcp("127.0.0.1", 0);
  ConnectionTable table_{/*most_of_one=*/3, /*most_threads=*/2};
};

TEST_F(Connections, NewOneTakesThePlaceOfTheOneThatIsIdleForLongest) {
  std::list<Pair> pairs;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(add(pairs.emplace_back(connect("127.0.0.2"))));
  const Pair other = connect("127.0.0.3");
  EXPECT_TRUE(add(other));
  EXPECT_FALSE(is_cut(pairs.front()));
  table_.begin_call(&other, pairs.front().name(), /*holds_thread=*/false);
  EXPECT_TRUE(add(pairs.emplace_back(connect("127.0.0.2"))));
  EXPECT_FALSE(is_cut(pairs.front())) << "it has a call";
  EXPECT_TRUE(is_cut(*std::next(pairs.begin())));
  table_.end_call(&other);
  EXPECT_TRUE(add(pairs.emplace_back(connect("127.0.0.2"))));
  EXPECT_FALSE(is_cut(pairs.front())) << "it has been idle for less time";
  EXPECT_FALSE(is_cut(other)) << "of another address";
}

TEST_F(Connections, AddressWhoseConnectionsAreAllInUseGetsNoMore) {
  std::list<Pair> pairs;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(add(pairs.emplace_back(connect("127.0.0.2"))));
    table_.begin_call(&pairs.back(), pairs.back().name(), /*holds_thread=*/false);
  }
  EXPECT_FALSE(add(connect("127.0.0.2")));
  pairs.front().client = UniqueFd();
  pairs.front().server = UniqueFd();
  EXPECT_TRUE(add(connect("127.0.0.2"))) << "one has ended";
}

TEST_F(Connections, RoomIsMadeByWhoHasMost) {
  std::list<Pair> many;
  std::list<Pair> few;
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(add(few.emplace_back(connect(("127.0.1." + std::to_string(i + 1)).c_str()))));
  for (int of = 0; of < 2; ++of) {
    for (int i = 0; i < 3; ++i)
      EXPECT_TRUE(add(many.emplace_back(connect(of == 0 ? "127.0.0.2" : "127.0.0.3"))));
  }
  EXPECT_EQ(table_.make_room(), 1);  // an eighth
  EXPECT_TRUE(is_cut(many.front()));
  for (const Pair& pair : few) EXPECT_FALSE(is_cut(pair));
}

TEST_F(Connections, ReaderThatDoesNotReadTheEndOfItsAnswerIsCut) {
  const Pair pair = connect("127.0.0.2");
  EXPECT_TRUE(add(pair));
  table_.begin_call(&pair, pair.name(), /*holds_thread=*/true);
  const auto later = ConnectionTable::Clock::now() + std::chrono::hours(1);
  EXPECT_EQ(table_.cut_stalled(later), 0) << "it is still served";
  table_.answer_call(&pair);
  EXPECT_EQ(table_.cut_stalled(), 0);
  EXPECT_EQ(table_.cut_stalled(later), 1);
  EXPECT_TRUE(is_cut(pair));
  table_.end_call(&pair);
}

TEST_F(Connections, ReadersThatHoldManyThreadsLoseTheOldestAnswer) {
  std::list<Pair> pairs;
  const auto begin = [&](const char* from, bool holds_thread) {
    Pair& pair = pairs.emplace_back(connect(from));
    EXPECT_TRUE(add(pair));
    table_.begin_call(&pair, pair.name(), holds_thread);
    return &pair;
  };
  const Pair* other = begin("127.0.0.3", true);
  table_.answer_call(other);
  const Pair* first = begin("127.0.0.2", true);
  const Pair* second = begin("127.0.0.2", true);
  table_.answer_call(second);
  table_.answer_call(first);
  EXPECT_FALSE(is_cut(*first) || is_cut(*second));
  const Pair* third = begin("127.0.0.2", true);
  EXPECT_TRUE(is_cut(*second));
  EXPECT_FALSE(is_cut(*first) || is_cut(*third) || is_cut(*other));
  table_.end_call(second);
  begin("127.0.0.2", false);
  EXPECT_FALSE(is_cut(*first)) << "a stream holds no thread";
}

}  // namespace
}  // namespace dotresize
