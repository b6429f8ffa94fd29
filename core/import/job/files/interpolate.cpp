// "${...}" in files of settings: names of other settings (OmegaConf: "${a.b}", "${.sibling}"), resolvers of Hydra's
// users
// ("${multiply:4, ${.hidden_size}}", "${oc.env:NAME,default}"), and variables ("${NAME}", "${NAME:-x}", Primus's
// "${NAME:x}").

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "core/import/job/files/config_files.hpp"

namespace rehearse::job {

namespace {

constexpr int kDeepestReference = 30;

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.erase(text.begin());
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front())
    text = text.substr(1, text.size() - 2);
  return text;
}

bool variable_name(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isupper(c) != 0 || std::isdigit(c) != 0 || c == '_';
  });
}

bool truth(const std::string& word) { return word == "True" || word == "true" || word == "1"; }

class Interpolation {
 public:
  Interpolation(std::vector<JobSetting>& settings, const Environment& environment) : environment_(environment) {
    for (JobSetting& s : settings) by_name_[s.name] = &s;
  }

  std::string filled(const std::string& text, const std::string& at, int depth) {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      const bool braces = text.compare(i, 2, "${") == 0;
      if (!braces) {
        out += text[i++];
        continue;
      }
      std::size_t end = i + 2;
      for (int open = 1; end < text.size(); ++end) {
        open += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
        if (open == 0) break;
      }
      out += depth > kDeepestReference ? unknown_mark(text.substr(i, end - i))
                                       : meaning(text.substr(i + 2, end - i - 2), at, depth + 1);
      i = end + 1;
    }
    return out;
  }

 private:
  /// What stands between "${" and "}".
  std::string meaning(const std::string& inside, const std::string& at, int depth) {
    const std::size_t colon = inside.find(':');
    if (colon == std::string::npos || inside.substr(0, colon).find('$') != std::string::npos)
      return reference(trimmed(filled(inside, at, depth)), at, depth);
    const std::string head = trimmed(inside.substr(0, colon));
    std::string rest = inside.substr(colon + 1);
    if (variable_name(head)) {
      if (rest.starts_with('-')) rest = rest.substr(1);
      const auto set = environment_(head);
      return set && !without_unknown(*set).empty() ? *set : trimmed(filled(rest, at, depth));
    }
    return resolved(head, arguments(rest, at, depth));
  }

  std::vector<std::string> arguments(const std::string& text, const std::string& at, int depth) {
    std::vector<std::string> out(1);
    int open = 0;
    for (const char c : text) {
      open += c == '{' || c == '[' || c == '(' ? 1 : c == '}' || c == ']' || c == ')' ? -1 : 0;
      if (c == ',' && open == 0)
        out.emplace_back();
      else
        out.back() += c;
    }
    for (std::string& word : out) word = trimmed(filled(trimmed(word), at, depth));
    return out;
  }

  std::string reference(const std::string& name, const std::string& at, int depth) {
    std::string path = name;
    if (name.starts_with('.')) {
      std::string group = at;
      std::size_t dots = 0;
      while (dots < name.size() && name[dots] == '.') ++dots;
      for (std::size_t k = 0; k < dots; ++k)
        group = group.find_last_of('.') == std::string::npos ? "" : group.substr(0, group.find_last_of('.'));
      path = group.empty() ? name.substr(dots) : group + "." + name.substr(dots);
    }
    const auto found = by_name_.find(path);
    if (found != by_name_.end() && path != at) return filled(found->second->text(), path, depth);
    if (variable_name(name))
      if (const auto set = environment_(name)) return *set;
    return unknown_mark(name);
  }

  static std::string number(double value) {
    constexpr double kExact = 9e15;
    return std::floor(value) == value && std::fabs(value) < kExact ? std::to_string(static_cast<long long>(value))
                                                                   : fmt::format("{}", value);
  }

  /// Resolvers that launchers of NVIDIA's and others register; the names say what they do.
  std::string resolved(const std::string& head, const std::vector<std::string>& words) {
    const std::string name = head.substr(head.find_last_of('.') == std::string::npos ? 0 : head.find_last_of('.') + 1);
    const std::string first = words.empty() ? "" : words[0], second = words.size() > 1 ? words[1] : "";
    if (name == "env") {
      const auto set = environment_(first);
      if (set && !without_unknown(*set).empty()) return *set;
      return words.size() > 1 ? second : unknown_mark(first);
    }
    if (name == "decode" || name == "int" || name == "as_int" || name == "int_div_checked") return first;
    if (name == "if") return words.size() > 2 ? (truth(first) ? second : words[2]) : unknown_mark(head);
    if (name == "not") return truth(first) ? "False" : "True";
    if (name == "or") return std::any_of(words.begin(), words.end(), truth) ? "True" : "False";
    if (name == "and") return std::all_of(words.begin(), words.end(), truth) ? "True" : "False";
    if (name == "eq") return first == second ? "True" : "False";
    if (name == "neq" || name == "ne") return first != second ? "True" : "False";
    std::vector<double> values;
    for (const std::string& w : words) {
      char* end = nullptr;
      values.push_back(std::strtod(w.c_str(), &end));
      if (w.empty() || end != w.c_str() + w.size()) return unknown_mark(fmt::format("{}:{}", head, readable(w)));
    }
    if (values.size() == 1 && name == "floor") return number(std::floor(values[0]));
    if (values.size() < 2) return unknown_mark(head);
    double out = values[0];
    for (std::size_t k = 1; k < values.size(); ++k) {
      const double v = values[k];
      if (name == "multiply" || name == "mul")
        out *= v;
      else if (name == "add" || name == "sum")
        out += v;
      else if (name == "subtract" || name == "sub")
        out -= v;
      else if (v != 0 && (name == "divide" || name == "div"))
        out /= v;
      else if (v != 0 && (name == "floor_div" || name == "int_div" || name == "floor_divide" || name == "divide_floor"))
        out = std::floor(out / v);
      else if (v != 0 && (name == "divide_ceil" || name == "ceil_div"))
        out = std::ceil(out / v);
      else if (name == "max")
        out = std::max(out, v);
      else if (name == "min")
        out = std::min(out, v);
      else if (name == "gt")
        return out > v ? "True" : "False";
      else if (name == "lt")
        return out < v ? "True" : "False";
      else if (name == "ge")
        return out >= v ? "True" : "False";
      else if (name == "le")
        return out <= v ? "True" : "False";
      else
        return unknown_mark(head);
    }
    return number(out);
  }

  const Environment& environment_;
  std::map<std::string, JobSetting*> by_name_;
};

}  // namespace

void interpolate(std::vector<JobSetting>& settings, const Environment& environment) {
  std::vector<JobSetting> before = settings;
  Interpolation meaning(before, environment);
  for (JobSetting& s : settings)
    for (std::string& v : s.values)
      if (v.find("${") != std::string::npos) v = meaning.filled(v, s.name, 0);
}

}  // namespace rehearse::job
