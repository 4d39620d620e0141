#include <gtest/gtest.h>

#include "server/api/job_query.h"
#include "server/common/api_error.h"

namespace dotresize {
namespace {

TEST(PageToken, GivesBackThePositionForTheSameFilterAlone) {
  v1::ListJobsRequest::Filter filter;
  filter.set_name("a");
  const std::string token = make_page_token(1234567, filter);
  EXPECT_EQ(read_page_token(token, filter), 1234567);
  EXPECT_EQ(read_page_token("", filter), 0);
  EXPECT_THROW(read_page_token(token, {}), ApiError);
  for (const char* bad : {"x", ".", "1", "-1.0", "ffffffffffffffffff.0", "1.2.3"}) {
    EXPECT_THROW(read_page_token(bad, filter), ApiError) << bad;
  }
}

}  // namespace
}  // namespace dotresize
