// Library for LD_PRELOAD with a disk that does not answer: a program's reads of the file to which
// the link DOTRESIZE_SLOW_LINK leads wait until the link is gone. The first one makes the directory
// DOTRESIZE_SLOW_LINK.reached.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

bool is_slow(int fd) {
  static const char* const link = std::getenv("DOTRESIZE_SLOW_LINK");
  struct stat slow {};
  struct stat asked {};
  if (link == nullptr || ::stat(link, &slow) != 0 || ::fstat(fd, &asked) != 0) return false;
  if (slow.st_dev != asked.st_dev || slow.st_ino != asked.st_ino) return false;
  ::mkdir((std::string(link) + ".reached").c_str(), 0700);
  return true;
}

}  // namespace

extern "C" ssize_t pread(int fd, void* to, size_t count, off_t offset) {
  using Pread = ssize_t(int, void*, size_t, off_t);
  static auto* const real = reinterpret_cast<Pread*>(::dlsym(RTLD_NEXT, "pread"));
  constexpr useconds_t kLook = 10'000;
  while (is_slow(fd)) ::usleep(kLook);
  return real(fd, to, count, offset);
}
