#pragma once

namespace dotresize {

/// Runs `dotresize-server mpijob`, for deploy/launchers/kubernetes: reads the request of a
/// launcher's `submit` (docs/server.md, Launchers) from standard input, to which are added `cpus`
/// of a rank, `labels` of the MPIJob and its pods, and `template`, a file (job/manifest/mpi_job.h;
/// "": the built-in one). Writes the MPIJob as JSON. Returns an exit code: kExitBadData, with a
/// line on standard error, for a request or a template in which something is wrong, and for a
/// template without a volume for the attempt's folder; kExitUnavailable, with a line too, for any
/// other error.
int make_mpi_job_of_request();

}  // namespace dotresize
