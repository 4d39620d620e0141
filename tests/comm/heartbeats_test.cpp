#include "worker/comm/heartbeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

namespace dotresize {
namespace {

constexpr std::chrono::milliseconds kTimeout(2000);
const std::string kToken = "0123456789abcdef";

/// Returns the sockets of ranks that are all in this process.
std::vector<PeerSockets> peer_sockets(int ranks) {
  std::vector<PeerSockets> sockets(static_cast<size_t>(ranks));
  std::vector<PeerSocket> all;
  for (int rank = 0; rank < ranks; ++rank) {
    PeerSockets& mine = sockets[static_cast<size_t>(rank)];
    mine.rank = rank;
    mine.socket = open_udp_socket(/*loopback_only=*/true);
    mine.token = kToken;
    all.push_back({"host" + std::to_string(rank), {loopback_address(port_of(mine.socket))}});
  }
  for (PeerSockets& mine : sockets) mine.ranks = all;
  return sockets;
}

HeartbeatOptions options_in(const std::string& phase) {
  HeartbeatOptions options;
  options.timeout = kTimeout;
  options.start_timeout = std::chrono::seconds(2);
  options.phase = [phase] { return phase; };
  return options;
}

/// Waits up to 30 s for the heartbeats to find a silent rank. Returns what they found.
std::string wait_for_silence(const Heartbeats& heartbeats) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (heartbeats.silence().empty() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return heartbeats.silence();
}

TEST(Heartbeats, RankThatEndsIsSilentAndTheOthersAreNot) {
  std::vector<PeerSockets> sockets = peer_sockets(3);
  Heartbeats zero(std::move(sockets[0]), options_in("calibrate"));
  Heartbeats one(std::move(sockets[1]), options_in("calibrate"));
  std::optional<Heartbeats> two;
  two.emplace(std::move(sockets[2]), options_in("evaluate_dense"));
  zero.wait_for_peers();
  one.wait_for_peers();
  two->wait_for_peers();
  std::this_thread::sleep_for(2 * kTimeout);
  EXPECT_EQ(zero.silence() + one.silence() + two->silence(), "");
  EXPECT_EQ(zero.wait_limit()("barrier", std::chrono::steady_clock::now()), "");

  two.reset();
  const std::string silence =
      "rank 2 on host2 has been silent for 2 s (resources.timeout_s), last in evaluate_dense";
  EXPECT_EQ(wait_for_silence(zero), silence);
  EXPECT_EQ(wait_for_silence(one), silence);
  EXPECT_EQ(zero.wait_limit()("barrier", {}), "did not complete: " + silence);
}

TEST(Heartbeats, ProcessThatGoesOnIsTakenOverByTheThread) {
  std::vector<PeerSockets> sockets = peer_sockets(2);
  std::atomic<int> calls = 0;
  HeartbeatOptions options = options_in("calibrate");
  options.timeout = std::chrono::milliseconds(500);
  options.grace = std::chrono::milliseconds(1500);
  options.on_silence = [&calls](const std::string& silence) {
    EXPECT_THAT(silence, testing::StartsWith("rank 1 on host1 has been silent"));
    ++calls;
  };
  std::optional<Heartbeats> peer(std::in_place, std::move(sockets[1]), options_in("calibrate"));
  Heartbeats alone(std::move(sockets[0]), options);
  alone.wait_for_peers();
  peer.reset();
  wait_for_silence(alone);
  EXPECT_EQ(calls, 0);
  while (calls == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_EQ(calls, 1);
}

TEST(Heartbeats, PeerThatIsNeverHeardIsAnErrorAtTheStart) {
  std::vector<PeerSockets> sockets = peer_sockets(2);
  Heartbeats alone(std::move(sockets[0]), options_in("prepare"));
  try {
    alone.wait_for_peers();
    FAIL() << "there is no peer";
  } catch (const CommunicationError& error) {
    EXPECT_STREQ(
        error.what(),
        "no heartbeat of rank 1 on host1 has arrived within 2 s: UDP packets must get from "
        "rank to rank");
  }
}

/// Two ranks in this process, and the waits of their main threads.
class WaitingRanks : public testing::Test {
 protected:
  using Clock = std::chrono::steady_clock;

  WaitingRanks() {
    std::vector<PeerSockets> sockets = peer_sockets(2);
    for (size_t rank = 0; rank < 2; ++rank) {
      HeartbeatOptions options = options_in("calibrate");
      options.timeout = std::chrono::milliseconds(1000);
      ranks_[rank].emplace(std::move(sockets[rank]), std::move(options));
    }
    for (auto& rank : ranks_) rank->wait_for_peers();
  }

  /// Calls `step` every few milliseconds until rank 0 has found something, for at most 2.5
  /// timeouts. Returns what it found.
  std::string wait(const std::function<void()>& step) {
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(2500);
    while (ranks_[0]->silence().empty() && Clock::now() < end) {
      step();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return ranks_[0]->silence();
  }

  std::array<std::optional<Heartbeats>, 2> ranks_;
  const Clock::time_point begun_ = Clock::now();
};

TEST_F(WaitingRanks, ThatWaitForEachOtherAreFoundWithTheirOperations) {
  const std::string found = wait([this] {
    ranks_[0]->wait_limit()("receive from rank 1", begun_);
    ranks_[1]->wait_limit()("barrier", begun_);
  });
  EXPECT_EQ(
      found,
      "no rank has made progress for 1 s (resources.timeout_s): rank 0 on host0 waits in receive "
      "from rank 1 (wait 1), rank 1 on host1 waits in barrier (wait 1)");
  EXPECT_EQ(ranks_[0]->wait_limit()("receive from rank 1", begun_), "did not complete: " + found);
}

TEST_F(WaitingRanks, OneOfWhichGoesOnOrComputesAreLeftAlone) {
  EXPECT_EQ(wait([this] { ranks_[0]->wait_limit()("receive from rank 1", begun_); }), "");
  EXPECT_EQ(wait([this] {
              ranks_[0]->wait_limit()("receive from rank 1", begun_);
              ranks_[1]->wait_limit()("barrier", Clock::now());
            }),
            "");
}

/// Returns packets that differ in one respect each from a beat of rank 1 to rank 0.
std::vector<std::string> stray_packets() {
  const auto number = [](int32_t value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  // Wait, phase and operation of the beat.
  const std::string phase = std::string(8, '\0') + "calibrate" + std::string(119, '\0');
  return {
      "",
      "x",
      kToken,
      kToken + number(1) + number(0) + phase.substr(1),
      kToken + number(1) + number(0) + phase + "x",
      "another token..." + number(1) + number(0) + phase,
      kToken + number(1) + number(1) + phase,
      kToken + number(0) + number(0) + phase,
      kToken + number(2) + number(0) + phase,
      kToken + number(-1) + number(0) + phase,
      std::string(60000, 'x'),
  };
}

TEST(Heartbeats, StrayPacketIsNoBeat) {
  std::vector<PeerSockets> sockets = peer_sockets(2);
  const sockaddr_in address = sockets[0].ranks[0].addresses[0];
  Heartbeats alone(std::move(sockets[0]), options_in("prepare"));
  const UniqueFd stranger = open_udp_socket(/*loopback_only=*/true);
  for (const std::string& packet : stray_packets()) {
    ::sendto(stranger.get(), packet.data(), packet.size(), 0,
             reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  EXPECT_THROW(alone.wait_for_peers(), CommunicationError);
}

/// Rank 1's beat is made by hand: its phase fills the field and has bytes that are not text.
TEST(Heartbeats, PhaseOfAPacketIsCutAndPrintable) {
  std::vector<PeerSockets> sockets = peer_sockets(2);
  const sockaddr_in address = sockets[0].ranks[0].addresses[0];
  Heartbeats alone(std::move(sockets[0]), options_in("prepare"));
  const std::string ranks("\1\0\0\0\0\0\0\0", 8);
  const std::string wait(8, '\0');
  const std::string operation(64, '\0');
  const std::string packet = kToken + ranks + wait + "\n\x1b" + std::string(62, 'p') + operation;
  ::sendto(sockets[1].socket.get(), packet.data(), packet.size(), 0,
           reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  alone.wait_for_peers();
  EXPECT_THAT(wait_for_silence(alone), testing::EndsWith("last in  ?" + std::string(62, 'p')));
}

}  // namespace
}  // namespace dotresize
