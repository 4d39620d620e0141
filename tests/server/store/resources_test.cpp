#include "server/store/resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "server/schedule/queue_hold.h"

namespace dotresize {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SecondsUntilFree, CountsReleasesInTheirOrder) {
  const Amounts free = {1, 0, 100};
  const std::vector<Release> releases = {{60.0, {4, 4, 0}}, {20.0, {2, 0, 50}}, {40.0, {1, 1, 0}}};
  EXPECT_EQ(seconds_until_free({1, 0, 100}, free, releases), 0.0);
  EXPECT_EQ(seconds_until_free({3, 0, 150}, free, releases), 20.0);
  EXPECT_EQ(seconds_until_free({3, 1, 0}, free, releases), 40.0);
  EXPECT_EQ(seconds_until_free({3, 2, 0}, free, releases), 60.0);
  EXPECT_EQ(seconds_until_free({1, 0, 151}, free, releases), std::nullopt);
}

TEST(QueueHold, IsTwiceAsLongEachTimeUntilAnAttemptThatWasLaunchedSinceRuns) {
  using std::chrono::seconds;
  QueueHold hold;
  QueueHold::Clock::time_point now = QueueHold::Clock::now();
  hold.launch("before", now);
  EXPECT_EQ(hold.begin("no mpirun", now), seconds(1));
  EXPECT_EQ(hold.reason(now), "no mpirun");
  EXPECT_EQ(hold.reason(now + seconds(1)), "");
  hold.see("before", true, now);
  EXPECT_TRUE(hold.is_on()) << "it was started when all was well";
  EXPECT_EQ(hold.begin("no mpirun", now), seconds(1)) << "another attempt of the same round";
  now += seconds(1);
  hold.launch("first", now);
  for (const int length : {2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_EQ(hold.begin("no mpirun", now), seconds(length));
    now += seconds(length);
  }
  hold.launch("second", now);
  hold.see("second", false, now + seconds(59));
  EXPECT_TRUE(hold.is_on());
  hold.see("second", true, now + seconds(59));
  EXPECT_FALSE(hold.is_on());
  EXPECT_EQ(hold.begin("no mpirun", now), seconds(1));
  hold.launch("of Slurm", now);
  hold.see("of Slurm", false, now + seconds(60));
  EXPECT_FALSE(hold.is_on()) << "it waits for Slurm, not for this machine";
}

TEST(QueueHold, EndsWithTheJobsThatWaited) {
  using std::chrono::seconds;
  QueueHold hold;
  const QueueHold::Clock::time_point now = QueueHold::Clock::now();
  hold.begin("no mpirun", now);
  hold.see_empty_queue(now);
  EXPECT_TRUE(hold.is_on()) << "its time is not over";
  hold.launch("last", now + seconds(1));
  hold.see_empty_queue(now + seconds(1));
  EXPECT_TRUE(hold.is_on()) << "it may fail yet";
  hold.forget("last");
  hold.see_empty_queue(now + seconds(1));
  EXPECT_FALSE(hold.is_on());
}

class Gpus : public ::testing::Test {
 protected:
  ~Gpus() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }
  static void show(const char* list) { ::setenv("CUDA_VISIBLE_DEVICES", list, 1); }
};

TEST_F(Gpus, AreThoseThatTheServerItselfMaySee) {
  show("2,GPU-5b1e,7");
  EXPECT_THAT(find_gpus(), ElementsAre("2", "GPU-5b1e", "7"));
  show("");
  EXPECT_THAT(find_gpus(), IsEmpty());
}

TEST_F(Gpus, OfAutoAreOneARankOrNone) {
  const Amounts capacity{16, 4, 0};
  EXPECT_EQ(gpus_needed(v1::Resources::cpu, 2, capacity), 0);
  EXPECT_EQ(gpus_needed(v1::Resources::auto_, 4, capacity), 4);
  EXPECT_EQ(gpus_needed(v1::Resources::auto_, 5, capacity), 0);
  EXPECT_EQ(gpus_needed(v1::Resources::cuda, 5, capacity), 5);
}

TEST(Leases, CountJobsOfAnEarlierServerAlsoBeyondTheCapacity) {
  Machine machine;
  machine.capacity = {4, 3, 1000};
  machine.gpus = {"0", "1", "2"};
  v1::Job job;
  job.mutable_spec()->mutable_resources()->set_ranks(2);
  job.set_gpus("1,9");
  job.set_memory_bytes(1500);
  Leases leases(machine, {job});
  EXPECT_EQ(leases.free().ranks, 2);
  EXPECT_EQ(leases.free().gpus, 1);
  EXPECT_EQ(leases.free().memory, 0);
  EXPECT_THAT(leases.take({1, 1, 0}), ElementsAre("0"));
  EXPECT_EQ(leases.free().gpus, 0);
}

}  // namespace
}  // namespace dotresize
