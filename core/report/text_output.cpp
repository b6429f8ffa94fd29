#include "core/report/text_output.hpp"

#include <cstdio>
#include <stdexcept>

#include <fmt/format.h>
#include <zlib.h>

#include "core/units/error.hpp"

namespace rehearse {

namespace {

[[noreturn]] void fail(const std::string& path) { throw Error(ErrorKind::usage, "cannot be written", path, "check the folder and its permissions"); }

class PlainFile final : public TextOutput {
 public:
  explicit PlainFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "wb"), &std::fclose) {
    if (!file_) fail(path_);
  }
  void write(std::string_view text) override {
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) fail(path_);
  }
  void close() override {
    if (std::fclose(file_.release()) != 0) fail(path_);
  }

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

class GzipFile final : public TextOutput {
 public:
  explicit GzipFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "wb6"), &gzclose) {
    if (!file_) fail(path_);
  }
  void write(std::string_view text) override {
    if (!text.empty() && gzwrite(file_.get(), text.data(), static_cast<unsigned>(text.size())) != static_cast<int>(text.size())) fail(path_);
  }
  void close() override {
    if (gzclose(file_.release()) != Z_OK) fail(path_);
  }

 private:
  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

}  // namespace

std::unique_ptr<TextOutput> open_output(const std::string& path) {
  if (path.ends_with(".gz")) return std::make_unique<GzipFile>(path);
  return std::make_unique<PlainFile>(path);
}

}  // namespace rehearse
