#pragma once

namespace dotresize {

/// Runs `dotresize-server supervise --dir DIR --umask DECIMAL -- COMMAND...`, a separate process
/// that outlives the server. It runs COMMAND and writes DIR/exit.json when COMMAND and all of its
/// descendants have ended. Output goes to DIR/../log, up to 64 MiB (base/files/capped_file.h).
/// Descriptor 3 is the locked file DIR/lock, held to the end.
///
/// SIGTERM is passed on to COMMAND; processes left ten seconds later are killed. When COMMAND ends
/// by itself, its descendants have two seconds.
int supervise(int argc, char** argv);

}  // namespace dotresize
