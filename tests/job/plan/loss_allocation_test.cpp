#include "job/plan/allocate/loss_allocation.h"

#include <gmock/gmock.h>

#include <limits>
#include <stdexcept>

namespace dotresize {
namespace {

using testing::ElementsAre;

TEST(LossAllocation, TakesTheStepsThatCostLeast) {
  const std::vector<LossCurve> curves = {{{40, 30, 20, 10}, {0.0, 5.0, 11.0, 20.0}},
                                         {{40, 30, 20, 10}, {0.0, 1.0, 3.0, 7.0}}};
  EXPECT_THAT(allocate_by_loss(curves, 80), ElementsAre(0, 0));
  EXPECT_THAT(allocate_by_loss(curves, 79), ElementsAre(0, 1));
  EXPECT_THAT(allocate_by_loss(curves, 50), ElementsAre(0, 3));
  EXPECT_THAT(allocate_by_loss(curves, 40), ElementsAre(1, 3));
  EXPECT_THAT(allocate_by_loss(curves, 20), ElementsAre(3, 3));
}

TEST(LossAllocation, CostsAreThoseOfAParameter) {
  const std::vector<LossCurve> curves = {{{20, 10}, {0.0, 1.0}}, {{200, 100}, {0.0, 2.0}}};
  EXPECT_THAT(allocate_by_loss(curves, 219), ElementsAre(0, 1));
}

TEST(LossAllocation, LooksBeyondAnExpensiveStep) {
  const std::vector<LossCurve> curves = {{{40, 30, 20}, {0.0, 3.0, 3.5}},
                                         {{40, 30, 20}, {0.0, 2.0, 4.0}}};
  EXPECT_THAT(allocate_by_loss(curves, 60), ElementsAre(2, 0));
  EXPECT_THAT(allocate_by_loss(curves, 70), ElementsAre(1, 0));  // halfway along the same edge
}

/// The last step of the first curve saves more than is required.
TEST(LossAllocation, TakesALargeStepIfWhatItGivesBackIsWorthIt) {
  const LossCurve other = {{40, 30, 20, 10}, {0.0, 0.1, 0.3, 0.6}};
  const LossCurve worth_it = {{100, 90, 80, 0}, {0.0, 3.0, 3.1, 3.2}};
  EXPECT_THAT(allocate_by_loss({worth_it, other}, 110), ElementsAre(0, 3));
  EXPECT_THAT(allocate_by_loss({worth_it, other}, 100), ElementsAre(3, 0));
  EXPECT_THAT(allocate_by_loss({worth_it, other}, 30), ElementsAre(3, 1));
  const LossCurve too_much = {{100, 90, 80, 0}, {0.0, 1.0, 3.0, 4.0}};
  EXPECT_THAT(allocate_by_loss({too_much, other}, 100), ElementsAre(1, 3));
}

TEST(LossAllocation, GivesNothingBackForWhatIsOnlyRounding) {
  const LossCurve unread = {{40, 30, 20}, {0.0, 1e-12, 2e-12}};
  const LossCurve large = {{100, 0}, {0.0, 3.0}};
  EXPECT_THAT(allocate_by_loss({unread, large}, 40), ElementsAre(2, 1));
}

TEST(LossAllocation, OfEqualStepsTheFirstPartsComeFirst) {
  const LossCurve curve = {{40, 30, 20}, {0.0, 1.0, 2.0}};
  EXPECT_THAT(allocate_by_loss({curve, curve, curve}, 90), ElementsAre(2, 1, 0));
}

TEST(LossAllocation, RefusesWhatIsNoCurveAndSizesThatThereAreNot) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const LossCurve good = {{20, 10}, {0.0, 1.0}};
  EXPECT_THROW(allocate_by_loss({good}, 9), std::invalid_argument);
  for (const LossCurve& curve :
       {LossCurve{}, LossCurve{{20, 10}, {0.0}}, LossCurve{{20, 10}, {0.0, kNan}},
        LossCurve{{20, 20}, {0.0, 1.0}}, LossCurve{{10, 20}, {0.0, 1.0}}}) {
    EXPECT_THROW(allocate_by_loss({curve}, 20), std::invalid_argument);
  }
}

}  // namespace
}  // namespace dotresize
