#pragma once

#include <filesystem>

#include "base/phase_clock.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// Throws InputError if no file of that name can be made: before the work, not after it.
void check_trace_path(const std::filesystem::path& path);

/// Writes the spans of all ranks as a timeline in the Trace Event Format of chrome://tracing and
/// Perfetto: a process per rank, an event per span, its phase the name. Collective; rank 0 writes,
/// as a whole. The clocks keep spans and took their origin when the ranks met.
void write_trace(Communicator& comm, const PhaseClock& clock, const std::filesystem::path& path);

}  // namespace dotresize
