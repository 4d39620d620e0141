#pragma once

#include <filesystem>

#include "base/phase_clock.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// Throws InputError if the file cannot be created. Call it before the work.
void check_trace_path(const std::filesystem::path& path);

/// Writes all ranks' spans as a timeline in the Trace Event Format of chrome://tracing and
/// Perfetto: a process per rank, an event per span, named after its phase. Rank 0 writes the file,
/// as a whole. The clocks must keep spans and have set their origin when the ranks met. Collective.
void write_trace(Communicator& comm, const PhaseClock& clock, const std::filesystem::path& path);

}  // namespace dotresize
