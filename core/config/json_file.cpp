#include "core/config/json_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/config/json_text.hpp"

namespace rehearse {
namespace {

using nlohmann::json;

std::string line_and_column(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t start = before.rfind('\n');
  return fmt::format("{}:{}", line, start == std::string_view::npos ? before.size() + 1 : before.size() - start);
}

// The sentence of nlohmann's message without its tag, position and raw bytes.
std::string sentence(std::string message) {
  if (const auto tag = message.find("] "); tag != std::string::npos) message.erase(0, tag + 2);
  if (const auto position = message.find(": ");
      message.starts_with("parse error at line") && position != std::string::npos)
    message.erase(0, position + 2);
  for (char& c : message)
    if (c < 0x20 || c > 0x7e) c = '?';
  constexpr std::size_t kLongest = 200;
  return message.size() <= kLongest ? message : message.substr(0, kLongest) + "...";
}

// Builds the document from parse events, because the library's own builder lets the last of two equal keys win.
class StrictBuilder : public nlohmann::json_sax<json> {
 public:
  StrictBuilder(std::string_view text, const std::string& origin, int max_depth)
      : text_(text), origin_(origin), max_depth_(max_depth) {}

  json take() { return std::move(root_); }

  bool null() override { return add(json(nullptr)); }
  bool boolean(bool v) override { return add(json(v)); }
  bool number_integer(number_integer_t v) override { return add(json(v)); }
  bool number_unsigned(number_unsigned_t v) override { return add(json(v)); }
  bool number_float(number_float_t v, const string_t&) override { return add(json(v)); }
  bool string(string_t& v) override { return add(json(std::move(v))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& k) override {
    if (open_.back()->contains(k))
      throw Error(ErrorKind::usage, fmt::format("key '{}' occurs twice in one object", sentence(k)),
                  origin_ + ": " + path() + "/" + sentence(k), "remove one of the two");
    keys_.back() = std::move(k);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& e) override {
    const std::size_t offset = position > 0 ? position - 1 : 0;
    throw Error(ErrorKind::usage, reason(offset, e), origin_ + ":" + line_and_column(text_, offset), hint_at(offset));
  }

 private:
  json* insert(json&& value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[keys_.back()] = std::move(value));
  }
  bool add(json&& value) {
    insert(std::move(value));
    return true;
  }
  bool open(json&& value) {
    if (static_cast<int>(open_.size()) >= max_depth_)
      throw Error(ErrorKind::usage, fmt::format("objects and arrays are nested deeper than {}", max_depth_),
                  origin_ + ": " + path());
    open_.push_back(insert(std::move(value)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  std::string path() const {
    std::string out;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i)
      out += "/" + (open_[i]->is_array() ? std::to_string(open_[i]->size() - 1) : sentence(keys_[i]));
    return out;
  }

  std::string reason(std::size_t offset, const json::exception& e) const {
    if (text_.find_first_not_of(" \t\r\n") == std::string_view::npos) return "the file is empty";
    if (offset >= text_.size()) return "the text ends early: an object, array or string is not closed";
    return "not JSON: " + sentence(e.what());
  }
  std::string hint_at(std::size_t offset) const {
    if (text_.starts_with("\xff\xfe") || text_.starts_with("\xfe\xff")) return "the text is UTF-16: save it as UTF-8";
    const std::string_view around = text_.substr(offset > 8 ? offset - 8 : 0, 16);
    for (const std::string_view word : {"NaN", "nan", "Infinity", "inf"})
      if (around.find(word) != std::string_view::npos) return "JSON has no NaN and no Infinity: write a number";
    return {};
  }

  std::string_view text_;
  const std::string& origin_;
  int max_depth_;
  json root_;
  std::vector<json*> open_;
  std::vector<std::string> keys_;  // Beside open_: the key being read, unused for arrays.
};

void refuse_larger(std::uintmax_t size, std::size_t limit, const std::string& path) {
  if (size <= limit) return;
  throw Error(ErrorKind::usage,
              fmt::format("the file has {}; at most {} are read", to_string(Bytes{static_cast<double>(size)}),
                          to_string(Bytes{static_cast<double>(limit)})),
              path, "is this the right file? weights and traces are not configurations");
}

}  // namespace

bool is_json_text(std::string_view given) {
  const std::size_t first = given.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && given[first] == '{';
}

bool is_utf8(std::string_view text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

std::string origin_of(const std::string& given) { return is_json_text(given) ? kGivenText : given; }

std::string read_text(const std::string& path, std::size_t limit) {
  if (is_json_text(path)) return path;
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (!fs::exists(status))
    throw Error(ErrorKind::usage, failed && status.type() == fs::file_type::none ? failed.message() : "no such file",
                path,
                "paths inside a file are relative to that file, those on the command line to the current directory");
  if (fs::is_directory(status))
    throw Error(ErrorKind::usage, "is a directory, not a file", path, "name the file inside it");
  if (fs::is_regular_file(status)) {
    const std::uintmax_t size = fs::file_size(path, failed);
    if (!failed) refuse_larger(size, limit, path);
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) {
    const bool here = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EIO;  // Not the file's fault.
    throw Error(here ? ErrorKind::check_failed : ErrorKind::usage,
                std::string("cannot be opened: ") + std::strerror(errno), path,
                here ? "the system's limits are in ulimit -a" : "check its permissions");
  }

  std::string text;
  std::array<char, 1 << 16> chunk;
  while (const std::size_t n = std::fread(chunk.data(), 1, chunk.size(), file.get())) {
    text.append(chunk.data(), n);
    refuse_larger(text.size(), limit, path);
  }
  if (std::ferror(file.get()))
    throw Error(ErrorKind::usage, std::string("cannot be read: ") + std::strerror(errno), path);
  return text;
}

std::vector<std::string> entries_of(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> out;
  std::error_code error;
  for (auto at = fs::directory_iterator(folder, error); !error && at != fs::directory_iterator(); at.increment(error))
    out.push_back(at->path().string());
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    throw Error(ErrorKind::check_failed, "cannot be read: " + error.message(), folder);
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> json_files_of(const std::string& folder) {
  std::vector<std::string> out = entries_of(folder);
  std::erase_if(out, [](const std::string& path) { return std::filesystem::path(path).extension() != ".json"; });
  return out;
}

json parse_json(std::string_view text, const std::string& origin, JsonLimits limits) {
  refuse_larger(text.size(), limits.bytes, origin);
  StrictBuilder builder(text, origin, limits.depth);
  json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

bool begins_with_schema(const std::string& path, std::string_view schema) {
  if (is_json_text(path)) return path.find(schema) != std::string::npos;
  std::ifstream in(path, std::ios::binary);
  std::string head(256, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.find(schema) != std::string::npos;
}

json load_json(const std::string& path, JsonLimits limits) {
  return parse_json(read_text(path, limits.bytes), origin_of(path), limits);
}

}  // namespace rehearse
