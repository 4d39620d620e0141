// Creates the threads of this program and of its libraries, in place of glibc's function.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>

namespace {

using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

/// Address space for the stacks of threads that would find none. It takes no memory.
std::array<std::atomic<void*>, 8> reserve{};

size_t stack_bytes() {
  constexpr size_t kGuard = size_t{64} << 10;
  size_t bytes = size_t{8} << 20;
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) == 0) {
    ::pthread_attr_getstacksize(&attributes, &bytes);
    ::pthread_attr_destroy(&attributes);
  }
  return bytes + kGuard;
}

void fill_reserve(size_t bytes) {
  for (std::atomic<void*>& place : reserve) {
    if (place != nullptr) continue;
    constexpr int kKind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const made = ::mmap(nullptr, bytes, PROT_NONE, kKind, -1, 0);
    if (made == MAP_FAILED) return;
    void* empty = nullptr;
    if (!place.compare_exchange_strong(empty, made)) ::munmap(made, bytes);
  }
}

bool give_back_one(size_t bytes) {
  for (std::atomic<void*>& place : reserve) {
    void* const kept = place.exchange(nullptr);
    if (kept == nullptr) continue;
    ::munmap(kept, bytes);
    return true;
  }
  return false;
}

}  // namespace

/// Takes the address space of the reserve if there is no other. gRPC 1.51 counts a thread of its
/// executor that could not be created as one that runs: what is put on that thread's list is never
/// done, and calls that need it hang for ever.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) noexcept {
  static const auto create = reinterpret_cast<Create*>(::dlsym(RTLD_NEXT, "pthread_create"));
  static const size_t bytes = stack_bytes();
  int error = create(thread, attributes, run, argument);
  while (error == EAGAIN && give_back_one(bytes)) {
    error = create(thread, attributes, run, argument);
  }
  if (error == 0) fill_reserve(bytes);
  return error;
}
