#include "server/access/request_budget.h"

#include <gtest/gtest.h>

#include <future>

#include "server/common/api_error.h"

namespace dotresize {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMiB = size_t{1} << 20;
constexpr RequestResources::Limits kSmall{.memory = 4 * kMiB,
                                          .memory_of_one = 3 * kMiB,
                                          .computing = 2,
                                          .short_time = milliseconds(1),
                                          .long_time = milliseconds(50),
                                          .patience = milliseconds(1)};

/// Returns the code and the reason of what the body throws.
template <class Body>
std::pair<grpc::StatusCode, std::string> refusal_of(const Body& body) {
  try {
    body();
  } catch (const ApiError& error) {
    return {error.code, error.reason};
  }
  return {grpc::StatusCode::OK, ""};
}

/// Works for `time` of the processor.
void compute(milliseconds time) {
  const std::clock_t end = std::clock() + time.count() * CLOCKS_PER_SEC / 1000;
  while (std::clock() < end) WorkBudget::check();
}

/// Runs the body within a budget on a thread of its own.
template <class Body>
auto elsewhere(RequestResources& resources, const std::string& holder, const Body& body) {
  return std::async(std::launch::async,
                    [&resources, holder, body] {
                      const RequestBudget budget(resources, holder);
                      return refusal_of(body);
                    })
      .get();
}

const std::pair kOk{grpc::StatusCode::OK, std::string()};
const std::pair kTooCostly{grpc::StatusCode::RESOURCE_EXHAUSTED, std::string("REQUEST_TOO_COSTLY")};

TEST(RequestBudget, WorkWithoutOneHasNoLimits) {
  WorkBudget::take(size_t{1} << 60);
  WorkBudget::check();
  EXPECT_FALSE(WorkBudget::exists());
}

TEST(RequestBudget, MemoryOfOneRequestIsLimited) {
  RequestResources resources(kSmall);
  const RequestBudget budget(resources, "ann");
  for (int i = 0; i < 3; ++i) WorkBudget::take(kMiB);
  EXPECT_EQ(refusal_of([] { WorkBudget::take(1); }), kTooCostly);
}

TEST(RequestBudget, MemoryThatIsFreeAgainDoesNotCount) {
  RequestResources resources(kSmall);
  const RequestBudget budget(resources, "ann");
  for (int i = 0; i < 100; ++i) {
    const WorkBudget::Temporary one;
    WorkBudget::take(kMiB);
  }
  EXPECT_EQ(refusal_of([] { WorkBudget::take(2 * kMiB); }), kOk);
}

TEST(RequestBudget, RequestsShareMemoryAndGiveItBack) {
  RequestResources resources(kSmall);
  const auto two = [] { WorkBudget::take(5 * kMiB / 2); };
  {
    const RequestBudget budget(resources, "ann");
    two();
    EXPECT_EQ(elsewhere(resources, "bob", two).second, "SERVER_BUSY");
  }
  EXPECT_EQ(elsewhere(resources, "bob", two), kOk);
}

TEST(RequestBudget, MemoryOfAnAnswerIsKeptUntilItIsSent) {
  RequestResources resources(kSmall);
  const grpc::ServerContext call;
  const auto two = [] { WorkBudget::take(5 * kMiB / 2); };
  {
    RequestBudget budget(resources, "ann", &call);
    two();
    budget.keep_for_answer();
  }
  EXPECT_EQ(elsewhere(resources, "bob", two).second, "SERVER_BUSY");
  resources.answered(&call);
  EXPECT_EQ(elsewhere(resources, "bob", two), kOk);
}

TEST(RequestBudget, ProcessorTimeIsLimited) {
  RequestResources resources(kSmall);
  const RequestBudget budget(resources, "ann");
  EXPECT_EQ(refusal_of([] { compute(milliseconds(10'000)); }), kTooCostly);
}

TEST(RequestBudget, OneHolderDoesNotKeepOthersFromComputing) {
  RequestResources resources(kSmall);
  const RequestBudget budget(resources, "ann");
  compute(milliseconds(10));
  const auto work = [] { compute(milliseconds(10)); };
  EXPECT_EQ(elsewhere(resources, "ann", work).second, "TOO_MANY_CALLS");
  EXPECT_EQ(elsewhere(resources, "bob", work), kOk);
}

TEST(RequestBudget, ServerThatStopsEndsWhatIsComputed) {
  RequestResources resources(kSmall);
  const RequestBudget budget(resources, "ann");
  WorkBudget::check();
  resources.stop();
  EXPECT_EQ(refusal_of([] { compute(milliseconds(10'000)); }).first, grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace dotresize
