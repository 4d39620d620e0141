#include <gmock/gmock.h>

#include "job/report/report_tables.h"

namespace dotresize {
namespace {

TEST(PhaseTable, ShowsMeanShareAndTheSlowestRank) {
  Report report;
  report.ranks = {{0, "a", 0, 2, {{"forward", 1.0}, {"cost", 6.0}}, int64_t{1} << 30},
                  {1, "b", 2, 4, {{"forward", 3.0}, {"cost", 2.0}, {"wait", 1.0}}, 1 << 20}};
  report.wall_time_s = 10.0;
  report.calibration_tokens = 4000;
  report.calibration_s = 2.0;
  EXPECT_EQ(phase_table(report),
            "phase    mean s   share  longest s  rank\n"
            "cost       4.00  40.0 %       6.00     0\n"
            "forward    2.00  20.0 %       3.00     1\n"
            "wait       0.50   5.0 %       1.00     1\n"
            "peak memory 1.00 GiB (rank 0), calibration 2,000 tokens/s\n");
}

TEST(PhaseTable, TellsWhatTheCostsHaveReachedAndTheMemoryOfTheGpus) {
  Report report;
  report.wall_time_s = 10.0;
  report.ranks.resize(3);
  report.ranks[0].cost = {.pairs = 300e9, .seconds = 3.0, .limit_pairs_per_s = 200e9};
  report.ranks[1].cost = {.pairs = 100e9, .seconds = 1.0, .limit_pairs_per_s = 100e9};
  report.ranks[1].rank = 1;
  report.ranks[1].peak_device_memory_bytes = int64_t{3} << 30;
  EXPECT_THAT(phase_table(report),
              testing::EndsWith("peak device memory 3.00 GiB (rank 1)\n"
                                "l1 cost 100.0 G pairs/s a rank, 57.1 % of the limit\n"));
  report.ranks[1].peak_device_allocated_bytes = int64_t{2} << 30;
  EXPECT_THAT(
      phase_table(report),
      testing::HasSubstr("peak device memory 3.00 GiB, of it 2.00 GiB in use at once (rank 1)\n"));
}

TEST(PhaseTable, CostsOfACpuHaveARateAlone) {
  Report report;
  report.wall_time_s = 10.0;
  report.ranks.resize(1);
  report.ranks[0].cost = {.pairs = 300e9, .seconds = 3.0};
  EXPECT_THAT(phase_table(report), testing::EndsWith(")\nl1 cost 100.0 G pairs/s a rank\n"));
}

TEST(PhaseTable, IsEmptyWithoutRanks) { EXPECT_EQ(phase_table(Report{}), ""); }

}  // namespace
}  // namespace dotresize
