#include <zlib.h>

#include "core/report/formats/draft_file.hpp"

namespace rehearse {

namespace {

class GzipFile final : public TextOutput {
 public:
  explicit GzipFile(const std::string& path) : draft_(path), file_(gzopen(draft_.file(), "wb6"), &gzclose) {
    if (!file_) fail_to_open(path);
  }
  void write(std::string_view text) override {
    if (!text.empty() &&
        gzwrite(file_.get(), text.data(), static_cast<unsigned>(text.size())) != static_cast<int>(text.size()))
      fail_late(draft_.path());
  }
  void close() override {
    if (gzclose(file_.release()) != Z_OK) fail_late(draft_.path());
    draft_.keep();
  }

 private:
  DraftFile draft_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

}  // namespace

std::unique_ptr<TextOutput> open_gzip_output(const std::string& path) { return std::make_unique<GzipFile>(path); }

}  // namespace rehearse
