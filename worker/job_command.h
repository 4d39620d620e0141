#pragma once

#include <filesystem>

namespace dotresize {

/// `dotresize-worker JOB`: this process is one rank of one job. `work_dir`: where tokenised text is
/// cached; empty: beside the job file. Returns the exit code; a failing rank ends all others
/// through MPI_Abort instead of returning.
int run_job_command(const std::filesystem::path& job_file, const std::filesystem::path& work_dir);

}  // namespace dotresize
