#include "base/phase_clock.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dotresize {
namespace {

using Seconds = std::map<std::string, double>;

/// A device that works behind its host, and the clock of both.
struct Device {
  double now = 0.0;
  double busy_until = 0.0;
  int moments = 0;  ///< moments alive

  void enqueue(double seconds) { busy_until = std::max(busy_until, now) + seconds; }
  MarkMoment mark();
};

class Moment final : public DeviceMoment {
 public:
  explicit Moment(Device& device)
      : device_(device), time_(std::max(device.now, device.busy_until)) {
    ++device_.moments;
  }
  ~Moment() override { --device_.moments; }
  bool passed() const noexcept override { return device_.now >= time_; }
  void wait() const noexcept override { device_.now = std::max(device_.now, time_); }
  double seconds_since(const DeviceMoment& earlier) const noexcept override {
    EXPECT_TRUE(passed());
    return time_ - static_cast<const Moment&>(earlier).time_;
  }

 private:
  Device& device_;
  double time_;
};

MarkMoment Device::mark() {
  return [this] { return std::make_shared<Moment>(*this); };
}

TEST(PhaseClockOfADevice, WaitsForNoPhaseBeforeItIsAsked) {
  Device device;
  PhaseClock clock(/*keeps_spans=*/false, device.mark());
  for (const double work : {3.0, 2.0}) {
    const PhaseClock::Scope forward(clock, "forward");
    device.enqueue(work);
    const PhaseClock::Scope gram(clock, "gram");
    device.enqueue(0.5);
  }
  EXPECT_EQ(device.now, 0.0);
  EXPECT_EQ(clock.seconds(), (Seconds{{"forward", 5.0}, {"gram", 1.0}}));
  EXPECT_EQ(device.now, 6.0);
}

/// Host work that the device's work hides takes no time of its own.
TEST(PhaseClockOfADevice, CountsWhatTheHostTakesLonger) {
  Device device;
  PhaseClock clock(/*keeps_spans=*/false, device.mark());
  {
    const PhaseClock::Scope forward(clock, "forward");
    device.enqueue(3.0);
  }
  {
    const PhaseClock::Scope read(clock, "read");
    device.now = 5.0;
  }
  EXPECT_EQ(clock.seconds(), (Seconds{{"forward", 3.0}, {"read", 2.0}}));
}

TEST(PhaseClockOfADevice, KeepsNoMomentThatHasPassed) {
  Device device;
  PhaseClock clock(/*keeps_spans=*/false, device.mark());
  for (int step = 0; step < 100; ++step) {
    const PhaseClock::Scope forward(clock, "forward");
    device.enqueue(1.0);
    device.now = step;
  }
  EXPECT_LE(device.moments, 4);
  EXPECT_EQ(clock.seconds(), (Seconds{{"forward", 100.0}}));
}

/// A clock that keeps spans measures host time.
TEST(PhaseClockOfADevice, WaitsForEachPhaseOfATimeline) {
  Device device;
  PhaseClock clock(/*keeps_spans=*/true, device.mark());
  {
    const PhaseClock::Scope forward(clock, "forward");
    device.enqueue(3.0);
  }
  EXPECT_EQ(device.now, 3.0);
  EXPECT_EQ(clock.spans().size(), 1);
}

TEST(PhaseClockOfADevice, ForgetsWhatWasBeforeItsOrigin) {
  Device device;
  PhaseClock clock(/*keeps_spans=*/false, device.mark());
  {
    const PhaseClock::Scope forward(clock, "forward");
    device.enqueue(3.0);
  }
  clock.set_origin();
  EXPECT_EQ(clock.seconds(), Seconds{});
}

}  // namespace
}  // namespace dotresize
