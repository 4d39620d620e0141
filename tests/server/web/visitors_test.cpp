#include "server/web/visitors.h"

#include <gtest/gtest.h>

namespace dotresize {
namespace {

TEST(Visitors, HostIsAnAddressOrANameOfTheMachine) {
  const std::vector<std::string> names = {"gpu1"};
  for (const char* own : {"127.0.0.1:9464", "192.0.2.1", "[::1]:9464", "localhost", "LocalHost:80",
                          "gpu1:9464", "GPU1"}) {
    EXPECT_TRUE(names_this_machine(own, names)) << own;
  }
  for (const char* foreign :
       {"", "evil.example", "gpu1.evil.example:9464", "localhost.evil.example",
        "127.0.0.1.evil.example", "[evil]", ":9464", "1.2.3"}) {
    EXPECT_FALSE(names_this_machine(foreign, names)) << foreign;
  }
}

TEST(Visitors, OriginIsThatOfTheHostOrThatOfAProgram) {
  EXPECT_TRUE(is_own_origin("", "localhost:9464"));
  EXPECT_TRUE(is_own_origin("http://localhost:9464", "localhost:9464"));
  EXPECT_TRUE(is_own_origin("https://gpu1", "GPU1"));
  EXPECT_FALSE(is_own_origin("null", "localhost:9464"));
  EXPECT_FALSE(is_own_origin("http://localhost:80", "localhost:9464"));
  EXPECT_FALSE(is_own_origin("http://evil.example", "localhost:9464"));
  EXPECT_FALSE(is_own_origin("http://", ""));
}

TEST(Visitors, CookieIsFoundByItsWholeName) {
  EXPECT_EQ(cookie_in("a=1; session=x=y; b=2", "session"), "x=y");
  EXPECT_EQ(cookie_in("session=x", "session"), "x");
  EXPECT_EQ(cookie_in("mysession=x;session=y", "session"), "y");
  EXPECT_EQ(cookie_in("sessions=x; a=session=z", "session"), "");
  EXPECT_EQ(cookie_in("", "session"), "");
  EXPECT_EQ(cookie_in("; ;;", "session"), "");
}

TEST(Visitors, FormsLeadToPagesOfTheServerAlone) {
  for (const char* page : {"/", "/jobs", "/jobs/j-17ab"}) EXPECT_TRUE(is_page(page)) << page;
  for (const char* other : {"", "//evil.example", "https://evil.example", "/jobs/", "/jobs/../x",
                            "/jobs/j-1/cancel", "/jobs/j-1\r\nX: y", "/metrics", "jobs"}) {
    EXPECT_FALSE(is_page(other)) << other;
  }
}

}  // namespace
}  // namespace dotresize
