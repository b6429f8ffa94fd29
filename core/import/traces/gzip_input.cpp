#include "core/import/traces/gzip_input.hpp"

#include <filesystem>
#include <istream>

#include <fmt/format.h>
#include <zlib.h>

#include "core/base/error.hpp"

namespace rehearse {

namespace {
constexpr std::size_t kBlock = 1u << 20;
}

GzipInput::GzipInput(const std::string& path) : path_(path), file_(nullptr, &gzclose_r), buffer_(kBlock) {
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed))
    throw Error(ErrorKind::usage, "is a directory", path, "name the files in it");
  file_.reset(gzopen(path.c_str(), "rb"));
  if (!file_) throw Error(ErrorKind::usage, "cannot be read", path, "check the path and its permissions");
  gzbuffer(file_.get(), kBlock / 4);
}

GzipInput::~GzipInput() = default;

GzipInput::int_type GzipInput::underflow() {
  const int got = gzread(file_.get(), buffer_.data(), static_cast<unsigned>(buffer_.size()));
  if (got <= 0) {
    int code = Z_OK;
    const char* said = gzerror(file_.get(), &code);
    if (got < 0 || code == Z_BUF_ERROR)
      throw Error(ErrorKind::usage,
                  code == Z_BUF_ERROR ? std::string("the compressed file ends in the middle")
                                      : std::string("damaged compression: ") + said,
                  path_, "copy the file again");
    return traits_type::eof();
  }
  setg(buffer_.data(), buffer_.data(), buffer_.data() + got);
  return traits_type::to_int_type(*gptr());
}

std::string read_unpacked(const std::string& path, std::size_t most) {
  GzipInput buffer(path);
  std::istream in(&buffer);
  in.exceptions(std::ios::badbit);  // What the buffer throws is to be thrown on.
  std::string text, block(kBlock, '\0');
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())), in.gcount() > 0) {
    text.append(block, 0, static_cast<std::size_t>(in.gcount()));
    if (text.size() > most) throw Error(ErrorKind::usage, fmt::format("more than {} bytes, decompressed", most), path);
  }
  return text;
}

}  // namespace rehearse
