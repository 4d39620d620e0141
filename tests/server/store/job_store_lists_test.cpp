#include "tests/server/store/store.h"

namespace dotresize {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Lists : public Store {
 protected:
  /// Returns SQLite's plan for the query.
  std::string plan_of(const JobQuery& query) const {
    SQLite::Database database(file_.string());
    SQLite::Statement plan(database, "EXPLAIN QUERY PLAN " + list_sql(query));
    std::string steps;
    while (plan.executeStep()) steps += plan.getColumn(3).getString() + "\n";
    return steps;
  }

  /// Expects that the query finds jobs and that an index gives them in order.
  void expect_direct(const JobQuery& query) {
    EXPECT_FALSE(store_.list(query).jobs.empty()) << list_sql(query);
    const std::string steps = plan_of(query);
    EXPECT_THAT(steps, ::testing::Not(::testing::HasSubstr("TEMP B-TREE"))) << list_sql(query);
    if (!query.name.empty() || !query.owner.empty() || !query.states.empty()) {
      EXPECT_THAT(steps, ::testing::Not(::testing::HasSubstr("SCAN "))) << list_sql(query);
    }
  }
};

TEST_F(Lists, OfAnyFilterSortAndScanNothing) {
  for (const char* name : {"a", "b"}) {
    NewJob job = new_job(name);
    job.owner = "ada";
    (*job.options.mutable_labels())["team"] = "nlp";
    (*job.options.mutable_labels())["round"] = "1";
    store_.create(job);
  }
  for (const bool by_name : {false, true}) {
    for (const std::vector<v1::Job::State>& states :
         {std::vector<v1::Job::State>{}, {v1::Job::QUEUED}, {v1::Job::QUEUED, v1::Job::FAILED}}) {
      JobQuery query;
      query.states = states;
      if (by_name) query.name = "a";
      expect_direct(query);
      query.owner = "ada";
      expect_direct(query);
      query.labels = {{"round", "1"}, {"team", "nlp"}};
      expect_direct(query);
    }
  }
}

TEST_F(Lists, LookAtNoJobsOfOtherStatesOrIds) {
  const std::string id = store_.create(new_job("a")).id();
  JobQuery query;
  query.states = {v1::Job::QUEUED, v1::Job::FAILED};
  query.name = "a";
  EXPECT_THAT(plan_of(query), ::testing::HasSubstr("name=? AND state=?"));
  query.name = "";
  query.owner = "ada";
  EXPECT_THAT(plan_of(query), ::testing::HasSubstr("owner=? AND state=?"));
  for (const bool of_states : {false, true}) {
    JobQuery one;
    one.id_prefix = id.substr(0, 6);
    if (of_states) one.states = query.states;
    EXPECT_THAT(plan_of(one), ::testing::HasSubstr("id>? AND id<?"));
    EXPECT_THAT(names(store_.list(one)), ElementsAre("a"));
    store_.create(new_job("b" + std::to_string(of_states)));
  }
}

TEST_F(Store, PagesStayTheSameWhileJobsAreAdded) {
  for (const char* name : {"a", "b", "c", "d", "e"}) store_.create(new_job(name));
  JobQuery query;
  query.limit = 2;
  const JobPage first = store_.list(query);
  EXPECT_THAT(names(first), ElementsAre("e", "d"));
  store_.create(new_job("f"));
  query.before = first.next_before;
  const JobPage second = store_.list(query);
  EXPECT_THAT(names(second), ElementsAre("c", "b"));
  query.before = second.next_before;
  const JobPage third = store_.list(query);
  EXPECT_THAT(names(third), ElementsAre("a"));
  EXPECT_EQ(third.next_before, 0);
}

TEST_F(Store, ListsByStateAndName) {
  store_.create(new_job("a"));
  store_.request_cancel(store_.create(new_job("b")).id());
  JobQuery query;
  query.states = {v1::Job::CANCELLED};
  EXPECT_THAT(names(store_.list(query)), ElementsAre("b"));
  query.name = "a";
  EXPECT_THAT(names(store_.list(query)), IsEmpty());
}

}  // namespace
}  // namespace dotresize
