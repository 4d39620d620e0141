#include <gtest/gtest.h>

#include <vector>

#include "server/web/visitors.h"

namespace dotresize {
namespace {

using std::chrono::seconds;

class SessionsTest : public ::testing::Test {
 protected:
  Sessions sessions_;
  Sessions::Clock::time_point now_{seconds(1000)};
};

TEST_F(SessionsTest, IsThatOfItsCallerUntilItIsClosed) {
  const std::string id = sessions_.open("ann", Credential("secret"), now_);
  const auto session = sessions_.find(id, now_);
  ASSERT_TRUE(session);
  EXPECT_FALSE(session->credential.is_empty());
  EXPECT_EQ(id.size(), 64u);
  EXPECT_EQ(session->form_token.size(), 64u);
  EXPECT_NE(session->form_token, id);
  EXPECT_FALSE(sessions_.find("", now_));
  EXPECT_FALSE(sessions_.find(session->form_token, now_));
  sessions_.close(id);
  EXPECT_FALSE(sessions_.find(id, now_));
}

TEST_F(SessionsTest, EndsAfterItsLifetime) {
  const std::string id = sessions_.open("ann", {}, now_);
  EXPECT_TRUE(sessions_.find(id, now_ + Sessions::kLifetime - seconds(1)));
  EXPECT_FALSE(sessions_.find(id, now_ + Sessions::kLifetime));
}

TEST_F(SessionsTest, OldestOneOfACallerMakesRoom) {
  const std::string other = sessions_.open("ben", {}, now_);
  std::vector<std::string> ids;
  for (size_t i = 0; i <= Sessions::kMaxOfCaller; ++i) {
    now_ += seconds(1);
    ids.push_back(sessions_.open("ann", {}, now_));
  }
  EXPECT_FALSE(sessions_.find(ids.front(), now_));
  EXPECT_TRUE(sessions_.find(ids[1], now_));
  EXPECT_TRUE(sessions_.find(ids.back(), now_));
  EXPECT_TRUE(sessions_.find(other, now_));
}

}  // namespace
}  // namespace dotresize
