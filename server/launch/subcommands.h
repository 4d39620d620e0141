#pragma once

namespace dotresize {

// Programs that dotresize-server and its launchers start: dotresize-server SUBCOMMAND. Each returns
// its exit code.

/// Runs `dotresize-server supervise --dir DIR --umask DECIMAL -- COMMAND...`, a separate process
/// that outlives the server. It runs COMMAND and writes DIR/exit.json when COMMAND and all of its
/// descendants have ended. Output goes to DIR/../log, up to 64 MiB (base/files/capped_file.h).
/// Descriptor 3 is the locked file DIR/lock, held to the end.
///
/// SIGTERM is passed on to COMMAND; processes left ten seconds later are killed. When COMMAND ends
/// by itself, its descendants have two seconds.
int supervise(int argc, char** argv);

/// Runs `dotresize-server sweep FILE N DIR`, which LocalLauncher starts: runs the jobs of the sweep
/// file, N at a time with DIR as their shared memory, and reports their progress to the server.
/// argv[1] is "sweep". Returns 0 if no job has failed.
int run_sweep_attempt(int argc, char** argv);

/// Runs `dotresize-server mpijob`, for deploy/launchers/kubernetes: reads the request of a
/// launcher's `submit` (docs/server.md, Launchers) from standard input, to which are added `cpus`
/// of a rank, `labels` of the MPIJob and its pods, and `template`, a file (job/manifest/mpi_job.h;
/// "": the built-in one). Writes the MPIJob as JSON. Returns kExitBadData, with a line on standard
/// error, for a request or a template in which something is wrong, and for a template without a
/// volume for the attempt's folder; kExitUnavailable, with a line too, for any other error.
int make_mpi_job_of_request();

}  // namespace dotresize
