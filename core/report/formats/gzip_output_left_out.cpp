// In place of gzip_output.cpp where there is no zlib.

#include "core/base/error.hpp"
#include "core/report/formats/draft_file.hpp"

namespace rehearse {

std::unique_ptr<TextOutput> open_gzip_output(const std::string& path) {
  throw Error(ErrorKind::unavailable, "this build compresses no files", path, "choose a name that does not end in .gz");
}

}  // namespace rehearse
