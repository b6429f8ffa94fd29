#include "core/import/traces/read_trace.hpp"

#include <filesystem>
#include <istream>

#include "core/base/error.hpp"
#include "core/import/traces/chakra_reader.hpp"
#include "core/import/traces/gzip_input.hpp"
#include "core/import/traces/kineto_reader.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kHead = 1u << 20;

enum class Form { kineto, chakra, chakra_json, json, empty };

/// Where the list of that name begins; npos where there is none.
std::size_t list_in(const std::string& text, const std::string& key) {
  for (std::size_t at = text.find('"' + key + '"'); at != std::string::npos; at = text.find('"' + key + '"', at + 1)) {
    const std::size_t value = text.find_first_not_of(" \t\r\n:", at + key.size() + 2);
    if (value != std::string::npos && text[value] == '[') return at;
  }
  return std::string::npos;
}

/// An execution trace by its name: "rank0.et", "rank0.et.gz".
bool is_named_et(const std::string& path) { return path.ends_with(".et") || path.ends_with(".et.gz"); }

/// By the beginning of the file, decompressed.
Form form_of(const std::string& path, std::size_t bytes) {
  GzipInput buffer(path);
  std::istream in(&buffer);
  in.exceptions(std::ios::badbit);  // What the buffer throws is to be thrown on.
  std::string head(bytes, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  const auto first = head.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string::npos) return Form::empty;
  if (head[first] != '{' && head[first] != '[') return Form::chakra;
  const auto events = list_in(head, "traceEvents"), nodes = list_in(head, "nodes");
  if (events != std::string::npos && events < nodes) return Form::kineto;
  if (nodes != std::string::npos) return Form::chakra_json;
  if (is_named_et(path)) return Form::chakra;  // A first message of 123 bytes begins like JSON.
  return head[first] == '[' && head.find("\"ph\"") != std::string::npos ? Form::kineto : Form::json;
}

}  // namespace

std::vector<RankTrace> read_trace(const std::string& path, const TraceLimits& limits) {
  switch (form_of(path, kHead)) {
    case Form::empty: throw Error(ErrorKind::usage, "the file is empty", path, "let the profiler finish");
    case Form::chakra_json: return {read_chakra_json(path, limits)};
    case Form::chakra: {
      GzipInput buffer(path);
      std::istream in(&buffer);
      in.exceptions(std::ios::badbit);
      return {read_chakra(in, path, limits)};
    }
    case Form::kineto:
    case Form::json: break;
  }
  GzipInput buffer(path);
  std::istream in(&buffer);
  return read_kineto(in, path, limits);
}

bool is_trace(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false;
  try {
    const Form form = form_of(path, kHead);
    return form == Form::kineto || form == Form::chakra_json || (form == Form::chakra && is_named_et(path));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace rehearse
