#include "worker/calibration/schedules/schedules.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "job/plan/schedule.h"
#include "worker/calibration/calibration_job.h"

namespace dotresize {
namespace {

TEST(Schedules, EveryRowHasItsFunction) {
  for (const Schedule& schedule : schedules()) {
    EXPECT_NE(calibrate_function(schedule.name), nullptr) << schedule.name;
  }
  EXPECT_EQ(calibrate_function("token_parallel"), calibrate_token_parallel);
}

TEST(Schedules, AnUnknownOneIsAnError) {
  EXPECT_THROW(calibrate_function("sequential"), std::invalid_argument);
}

}  // namespace
}  // namespace dotresize
