#include <gtest/gtest.h>

#include "server/access/call_gate.h"
#include "server/common/api_error.h"

namespace dotresize {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Rate : public ::testing::Test {
 protected:
  bool may_call(const std::string& caller) {
    try {
      limit_.take(caller, now_);
      return true;
    } catch (const ApiError& error) {
      EXPECT_EQ(error.code, grpc::StatusCode::RESOURCE_EXHAUSTED);
      EXPECT_EQ(error.retry_after, seconds(1));
      return false;
    }
  }
  int calls_until_refused(const std::string& caller) {
    int calls = 0;
    while (calls < 1000 && may_call(caller)) ++calls;
    return calls;
  }

  RateLimit limit_{4};
  RateLimit::Clock::time_point now_{seconds(1000)};
};

TEST_F(Rate, OfOneCallerTakesNothingFromAnother) {
  EXPECT_EQ(calls_until_refused("ada"), 40);
  EXPECT_TRUE(may_call("bob"));
  now_ += milliseconds(500);
  EXPECT_EQ(calls_until_refused("ada"), 2);
  now_ += seconds(3600);
  EXPECT_EQ(calls_until_refused("ada"), 40) << "no more than those of ten seconds";
}

TEST_F(Rate, IsRememberedWhileManyOthersCall) {
  calls_until_refused("ada");
  for (int i = 0; i < 10000; ++i) may_call("other" + std::to_string(i));
  EXPECT_FALSE(may_call("ada"));
}

TEST(RateOfZero, IsNone) {
  RateLimit limit(0);
  for (int i = 0; i < 100; ++i) EXPECT_NO_THROW(limit.take("ada"));
}

}  // namespace
}  // namespace dotresize
