#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "client/calls/connection.h"
#include "tests/client/fake_jobs.h"

namespace dotresize {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr char kFirst[] = "j-451f3da65440ea8f";
constexpr char kSecond[] = "j-451f000000000000";
constexpr char kThird[] = "j-8c02000000000000";

/// A server that lists three jobs. The parameter true stands for an earlier version, which ignores
/// the filter.
class JobId : public testing::TestWithParam<bool> {
 protected:
  JobId()
      : server_({.list =
                     [](const v1::ListJobsRequest& request, v1::ListJobsResponse& response) {
                       for (const char* id : {kFirst, kSecond, kThird}) {
                         if (!GetParam() &&
                             !std::string(id).starts_with(request.filter().id_prefix()))
                           continue;
                         response.add_jobs()->set_id(id);
                       }
                       return grpc::Status::OK;
                     }}),
        connection_(server_.address()) {}

  std::string find(const std::string& text) { return find_job_id(connection_, text); }

  FakeServer server_;
  Connection connection_;
};

TEST_P(JobId, IsFoundByItsBeginning) {
  EXPECT_EQ(find("j-8"), kThird);
  EXPECT_EQ(find("8c02"), kThird);
  EXPECT_EQ(find("451f3"), kFirst);
}

TEST_P(JobId, ThatIsAmbiguousIsRefusedWithTheCandidates) {
  EXPECT_THAT([&] { find("451f"); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("several jobs begin with '451f'"),
                                              HasSubstr(kFirst), HasSubstr(kSecond))));
}

TEST_P(JobId, ThatNoJobHasIsLeftToTheServer) {
  EXPECT_EQ(find("beef"), "beef");
  EXPECT_EQ(find("nonexistent"), "nonexistent");
  EXPECT_EQ(find(""), "");
}

INSTANTIATE_TEST_SUITE_P(Servers, JobId, testing::Bool());

TEST(WholeJobId, NeedsNoLookingUp) {
  Connection nobody("127.0.0.1:1");
  EXPECT_EQ(find_job_id(nobody, kFirst), kFirst);
}

}  // namespace
}  // namespace dotresize
