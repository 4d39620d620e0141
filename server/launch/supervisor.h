#pragma once

namespace dotresize {

/// `dotresize-server supervise --dir DIR --umask DECIMAL -- COMMAND...`, a process of its own that
/// outlives the server: it runs COMMAND, and when COMMAND and all of its descendants have ended it
/// writes DIR/exit.json. Output goes to DIR/../log, 64 MiB of it (base/capped_file.h). Descriptor 3
/// is the locked DIR/lock, held to the end.
///
/// SIGTERM is passed on to COMMAND; what is left ten seconds later is killed. When COMMAND ends by
/// itself, its descendants have two seconds.
int supervise(int argc, char** argv);

}  // namespace dotresize
