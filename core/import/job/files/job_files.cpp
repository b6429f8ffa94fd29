#include "core/import/job/files/job_files.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "core/config/json_file.hpp"

namespace rehearse::job {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 4'000'000;

/// Carriage returns before line feeds are left out.
Traced traced_text(const std::string& text, int file) {
  Traced out;
  out.text.reserve(text.size());
  Place place{file, 1};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    if (text[i] == kUnknownBegin || text[i] == kUnknownEnd) continue;
    out.add(text[i], place);
    if (text[i] == '\n') ++place.line;
  }
  return out;
}

std::string normal_path(const std::string& path) { return fs::path(path).lexically_normal().generic_string(); }

}  // namespace

int JobFiles::read(const std::string& path, bool given) {
  const std::string text = read_text(path, kMostBytes);
  files_.push_back({path, traced_text(text, count()), given});
  return count() - 1;
}

int JobFiles::give(const std::string& path) { return read(path, true); }

int JobFiles::add(const std::string& name, const std::string& text) {
  files_.push_back({name, traced_text(text, count()), true});
  return count() - 1;
}

void JobFiles::write(const std::string& path, Traced text, bool append) {
  const int at = known(path);
  if (at >= 0 && append) return files_[static_cast<std::size_t>(at)].text.add(text);
  if (at >= 0 && !files_[static_cast<std::size_t>(at)].given)
    files_[static_cast<std::size_t>(at)].text = std::move(text);
  else
    files_.push_back({path, std::move(text), false});
}

int JobFiles::known(const std::string& path) const {
  // What was written last goes first.
  for (int i = count() - 1; i >= 0; --i)
    if (normal_path(at(i).path) == normal_path(path)) return i;
  return -1;
}

int JobFiles::find(const std::string& path, int from) {
  const std::string name = without_unknown(path);
  if (name.empty() || name.ends_with('/')) return -1;
  if (const int at = known(path); at >= 0) return at;
  const fs::path folder = from >= 0 ? fs::path(at(from).path).parent_path() : fs::path();
  const std::string beside = (folder / fs::path(name).relative_path()).lexically_normal().generic_string();
  if (const int at = known(beside); at >= 0) return at;
  const fs::path file_name = fs::path(name).filename();
  for (int i = count() - 1; i >= 0; --i)
    if (fs::path(at(i).path).filename() == file_name) return i;
  for (const fs::path& candidate : {fs::path(name), fs::path(beside), folder / file_name}) {
    std::error_code failed;
    if (fs::is_regular_file(candidate, failed) && fs::file_size(candidate, failed) <= kMostBytes)
      return read(candidate.generic_string(), false);
  }
  return -1;
}

std::string JobFiles::where(Place place) const {
  if (place.file < 0 || place.file >= count()) return {};
  const std::string& path = at(place.file).path;
  return place.line > 0 ? fmt::format("{}:{}", path, place.line) : path;
}

}  // namespace rehearse::job
