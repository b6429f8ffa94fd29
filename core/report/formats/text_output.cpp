#include "core/report/formats/text_output.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/error.hpp"
#include "core/report/formats/draft_file.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::usage, "cannot be written: " + why, path,
              "check the folder, its permissions and the space left; nothing was left behind");
}
/// Names of open drafts, where a signal's handler finds them.
constexpr std::size_t kMostDrafts = 16;
std::array<std::atomic<const char*>, kMostDrafts> open_drafts{};

void note_draft(const char* file) {
  for (auto& slot : open_drafts)
    if (const char* free = nullptr; slot.compare_exchange_strong(free, file)) return;
}

void forget_draft(const char* file) {
  for (auto& slot : open_drafts)
    if (const char* own = file; slot.compare_exchange_strong(own, nullptr)) return;
}

class PlainFile final : public TextOutput {
 public:
  explicit PlainFile(const std::string& path) : draft_(path), file_(std::fopen(draft_.file(), "wb"), &std::fclose) {
    if (!file_) fail_to_open(path);
  }
  void write(std::string_view text) override {
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) fail_late(draft_.path());
  }
  void close() override {
    if (std::fclose(file_.release()) != 0) fail_late(draft_.path());
    draft_.keep();
  }

 private:
  DraftFile draft_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace

void fail_late(const std::string& path) {
  throw Error(ErrorKind::check_failed, fmt::format("cannot be written: {}", std::strerror(errno)), path,
              "check the space left; nothing was left behind");
}
void fail_to_open(const std::string& path) { fail(path, std::strerror(errno)); }

DraftFile::DraftFile(const std::string& path) : path_(path) {
  std::error_code none;
  const fs::file_status there = fs::status(path, none);
  target_ = fs::is_symlink(path, none) ? fs::weakly_canonical(path, none) : fs::path(path);
  direct_ = fs::exists(there) && !fs::is_regular_file(there);
  if (fs::is_directory(there)) fail(path, std::strerror(EISDIR));
  if (fs::exists(there) && ::access(path.c_str(), W_OK) != 0) fail_to_open(path);
  file_ =
      direct_ ? target_ : target_.parent_path() / fmt::format(".{}.{}.part", target_.filename().string(), ::getpid());
  if (!direct_) note_draft(file_.c_str());
}

DraftFile::~DraftFile() {
  std::error_code none;
  if (!direct_ && !kept_) fs::remove(file_, none);
  if (!direct_) forget_draft(file_.c_str());
}

void DraftFile::keep() {
  std::error_code error;
  if (const fs::file_status there = fs::status(target_, error); !direct_ && fs::exists(there))
    fs::permissions(file_, there.permissions(), error);
  error.clear();
  if (!direct_) fs::rename(file_, target_, error);
  if (error) fail(path_, error.message());
  kept_ = true;
}

void remove_drafts() noexcept {
  for (const auto& slot : open_drafts)
    if (const char* file = slot.load()) ::unlink(file);
}

std::unique_ptr<TextOutput> open_output(const std::string& path) {
  if (path.ends_with(".gz")) return open_gzip_output(path);
  return std::make_unique<PlainFile>(path);
}

void check_output_path(const std::string& path) {
  if (path.empty()) throw Error(ErrorKind::usage, "no name for a file");
  std::error_code unknown;
  const fs::file_status there = fs::status(path, unknown);
  if (!fs::status_known(there)) fail(path, unknown.message());
  if (fs::is_directory(there)) throw Error(ErrorKind::usage, "is a folder", path, "name a file in it");
  const fs::path folder = fs::absolute(path).parent_path();
  if (!fs::is_directory(folder, unknown))
    throw Error(ErrorKind::usage, "cannot be written: no such folder", path, "make the folder first");
  const bool direct = fs::exists(there) && !fs::is_regular_file(there);
  if ((fs::exists(there) && ::access(path.c_str(), W_OK) != 0) || (!direct && ::access(folder.c_str(), W_OK) != 0))
    fail_to_open(path);
}

void write_file(const std::string& path, std::string_view text) {
  const auto out = open_output(path);
  out->write(text);
  out->close();
}

}  // namespace rehearse
