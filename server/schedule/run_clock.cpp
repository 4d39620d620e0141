#include "server/schedule/run_clock.h"

#include <algorithm>

namespace dotresize {

std::chrono::seconds RunClock::passed(const std::string& id, std::chrono::seconds by_wall,
                                      Clock::time_point now) {
  const Clock::time_point begun = now - std::max(by_wall, std::chrono::seconds(0));
  return std::chrono::duration_cast<std::chrono::seconds>(
      now - begun_.try_emplace(id, begun).first->second);
}

std::chrono::milliseconds ClockWatch::jump(Wall::time_point wall, Steady::time_point steady) {
  using Milliseconds = std::chrono::milliseconds;
  const auto jump = std::chrono::duration_cast<Milliseconds>((wall - wall_) - (steady - steady_));
  wall_ = wall;
  steady_ = steady;
  return std::chrono::abs(jump) < std::chrono::seconds(2) ? Milliseconds(0) : jump;
}

}  // namespace dotresize
