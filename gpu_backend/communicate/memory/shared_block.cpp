#include "gpu_backend/communicate/memory/shared_block.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.hpp"

namespace rehearse {

namespace {

Error failed(const std::string& what) {
  return {ErrorKind::unavailable, fmt::format("{}: {}", what, std::strerror(errno)), "memory between ranks"};
}

}  // namespace

SharedBlock::SharedBlock(std::size_t bytes) : file_(memfd_create("rehearse", MFD_CLOEXEC)), bytes_(bytes) {
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes)) != 0) {
    const Error e = failed("no memory to share");
    if (file_ >= 0) close(file_);
    throw e;
  }
  map();
}

SharedBlock::SharedBlock(const std::string& address) : file_(open(address.c_str(), O_RDWR | O_CLOEXEC)) {
  struct stat found {};
  if (file_ < 0 || fstat(file_, &found) != 0 || found.st_size <= 0) {
    const Error e = failed("cannot open " + address);
    if (file_ >= 0) close(file_);
    throw e;
  }
  bytes_ = static_cast<std::size_t>(found.st_size);
  map();
}

void SharedBlock::map() {
  void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (at == MAP_FAILED) {
    const Error e = failed("no room for shared memory");
    close(file_);
    throw e;
  }
  data_ = static_cast<std::byte*>(at);
}

SharedBlock::~SharedBlock() {
  munmap(data_, bytes_);
  close(file_);
}

std::string SharedBlock::address() const { return fmt::format("/proc/{}/fd/{}", getpid(), file_); }

std::string machine_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code unreadable;
  return fmt::format("{} {} {}", boot, std::filesystem::read_symlink("/proc/self/ns/pid", unreadable).string(),
                     geteuid());
}

}  // namespace rehearse
