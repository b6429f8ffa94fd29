// Makes one allocation fail, for tests of what a program does then: loaded with LD_PRELOAD.
//
// REHEARSE_FAILING_ALLOCATION=N    the n-th allocation of each process gives no memory (from 1)
// REHEARSE_ALLOCATION_COUNT=FILE   each process adds a line with its number of allocations to FILE at its end
//
// Allocations are counted from main() on, in the order of all threads: what libraries allocate before it cannot be
// caught by anyone.

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

// Names of the C library's own, which take the place of what is loaded after this.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* at, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {

std::atomic<long> allocations{0};
std::atomic<bool> counting{false};
long failing = 0;

using Main = int (*)(int, char**, char**);
Main main_of_program = nullptr;

int counted_main(int argc, char** argv, char** environment) {
  const char* n = std::getenv("REHEARSE_FAILING_ALLOCATION");
  failing = n == nullptr ? 0 : std::atol(n);
  counting = true;
  const int code = main_of_program(argc, argv, environment);
  counting = false;
  return code;
}

[[gnu::destructor]] void end() {
  counting = false;
  const char* file = std::getenv("REHEARSE_ALLOCATION_COUNT");
  if (file == nullptr) return;
  const int fd = ::open(file, O_CREAT | O_APPEND | O_WRONLY, 0600);
  if (fd < 0) return;
  char text[32];
  const int size = std::snprintf(text, sizeof text, "%ld\n", allocations.load());
  if (::write(fd, text, static_cast<std::size_t>(size)) != size) std::abort();
  ::close(fd);
}

bool fails() {
  if (!counting || ++allocations != failing) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {
int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(), void (*rtld_fini)(),
                      void* end) {
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  main_of_program = main;
  const auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(counted_main, argc, argv, init, fini, rtld_fini, end);
}
void* malloc(std::size_t size) noexcept { return fails() ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) noexcept { return fails() ? nullptr : __libc_calloc(count, size); }
void* realloc(void* at, std::size_t size) noexcept { return fails() ? nullptr : __libc_realloc(at, size); }
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return fails() ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  if (fails()) return ENOMEM;
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
