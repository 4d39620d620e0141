#pragma once

#include <filesystem>
#include <string>

namespace dotresize {

/// Exit codes of every program of the project (docs/cli.md).
enum ExitCode : int {
  kExitOk = 0,
  kExitJobFailed = 1,
  kExitCancelled = 2,
  kExitUsage = 64,
  kExitBadData = 65,
  kExitUnavailable = 69,
  kExitTryAgain = 75,
  kExitDenied = 77,
};

/// The project's version, as CMakeLists.txt states it.
inline constexpr char kVersion[] = DOTRESIZE_VERSION;

/// Flushes standard output. Returns `exit_code`, or kExitJobFailed after a line on stderr if what
/// the program has printed did not reach its reader: a full disk, a closed pipe.
int checked_output(const char* program, int exit_code);

/// Opens /dev/null in place of standard streams that are closed. Else the next files and sockets
/// would get their numbers, and what is printed would go into them. Writing to a closed standard
/// output still fails. Call first.
void open_standard_streams();

/// Makes a write beyond the limit of file sizes fail with a message instead of killing this process
/// without a word.
void survive_file_size_limit();

/// Removes TMPDIR if it is no directory in which this user can make files, after a line on stderr:
/// MPI fails there without naming it. Call before other threads start.
void leave_unusable_temporary_directory();

/// Folder of this process's program file; links are resolved.
std::filesystem::path folder_of_this_program();

/// Absolute path of dotresize-worker: $DOTRESIZE_WORKER, or else the one beside this program.
/// Throws ProgramMissing if it cannot be executed.
std::filesystem::path worker_program();

/// Throws ProgramMissing if PATH has no program of this name.
void require_program(const std::string& name);

}  // namespace dotresize
