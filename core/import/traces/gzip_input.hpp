#pragma once
// A file as a stream buffer, decompressed on the way where it is gzip.

#include <memory>
#include <streambuf>
#include <string>
#include <vector>

struct gzFile_s;

namespace rehearse {

/// Reads forward only. Throws Error (usage), `where` the path, when the file cannot be opened, its compression is
/// damaged, or it ends inside a compressed block.
class GzipInput final : public std::streambuf {
 public:
  explicit GzipInput(const std::string& path);
  ~GzipInput() override;
  GzipInput(const GzipInput&) = delete;
  GzipInput& operator=(const GzipInput&) = delete;

 protected:
  int_type underflow() override;

 private:
  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile_s*)> file_;
  std::vector<char> buffer_;
};

/// The whole file, decompressed. Throws Error (usage) as GzipInput does, and where it has more than `most` bytes.
[[nodiscard]] std::string read_unpacked(const std::string& path, std::size_t most);

}  // namespace rehearse
