#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <sstream>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/job/files/config_files.hpp"

namespace rehearse::job {

namespace {

std::string word_of(const toml::node& node) {
  if (const auto v = node.value_exact<std::string>()) return *v;
  if (const auto v = node.value_exact<bool>()) return *v ? "true" : "false";
  if (const auto v = node.value_exact<std::int64_t>()) return std::to_string(*v);
  if (const auto v = node.value_exact<double>()) return fmt::format("{}", *v);
  if (const toml::array* items = node.as_array()) {
    std::string out;
    for (const toml::node& item : *items) out += (out.empty() ? "" : " ") + word_of(item);
    return out;
  }
  return "?";
}

void add(const toml::table& table, const std::string& group, const JobFiles& files, int file,
         std::vector<JobSetting>& out) {
  for (const auto& [key, node] : table) {
    const std::string name = group.empty() ? std::string(key.str()) : group + "." + std::string(key.str());
    const std::string where = files.where({file, static_cast<int>(key.source().begin.line)});
    if (const toml::table* inner = node.as_table()) {
      add(*inner, name, files, file, out);
      continue;
    }
    JobSetting s{name, {}, where};
    if (const toml::array* items = node.as_array()) {
      std::size_t k = 0;
      for (const toml::node& item : *items) {
        if (const toml::table* inner = item.as_table())
          add(*inner, fmt::format("{}[{}]", name, k), files, file, out);
        else
          s.values.push_back(word_of(item));
        ++k;
      }
      if (s.values.empty()) s.values.emplace_back("null");
    } else {
      s.values.push_back(word_of(node));
    }
    out.push_back(std::move(s));
  }
}

/// TOML allows no control character but tabs and ends of lines (TOML 1.0, Spec), and toml++ 3.3 asserts that a header
/// has none.
void check_characters(const std::string& text, const JobFiles& files, int file) {
  int line = 1;
  for (const char c : text) {
    if (c == '\n') ++line;
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r')
      throw Error(ErrorKind::usage, "no TOML: a control character stands in the text", files.where({file, line}));
  }
}

}  // namespace

std::vector<JobSetting> read_toml(const JobFiles& files, int file) {
  std::vector<JobSetting> out;
  check_characters(files.at(file).text.text, files, file);
  try {
    add(toml::parse(files.at(file).text.text), "", files, file, out);
  } catch (const toml::parse_error& e) {
    throw Error(ErrorKind::usage, fmt::format("no TOML: {}", std::string(e.description())),
                files.where({file, static_cast<int>(e.source().begin.line)}));
  }
  return out;
}

}  // namespace rehearse::job
