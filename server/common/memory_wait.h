#pragma once

namespace dotresize {

/// Makes operator new wait for memory, ten seconds at most, before it throws std::bad_alloc. gRPC's
/// code is not written for exceptions: thrown there, one ends the process, or unwinds into a
/// handler that gRPC runs and loses what it did for other connections, which then hang.
void wait_for_memory();

/// Lets operator new throw at once on this thread, while it exists: in code that refuses a request
/// for which there is no memory.
class RefusesWithoutMemory {
 public:
  /// With `false`, undoes another one around it.
  explicit RefusesWithoutMemory(bool refuses = true);
  ~RefusesWithoutMemory();
  RefusesWithoutMemory(const RefusesWithoutMemory&) = delete;
  RefusesWithoutMemory& operator=(const RefusesWithoutMemory&) = delete;

 private:
  const bool before_;
};

}  // namespace dotresize
