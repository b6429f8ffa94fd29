// Small programs whose output follows from their words: echo, cat, sed, dirname and the like.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/posix_regex.hpp"
#include "core/import/job/shell/shell.hpp"

namespace rehearse::job {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestLine = 20'000;  // That a substitution is tried on: one with \1 may take forever.

Traced line_of(const std::string& text, Place place) { return {text + "\n", place}; }

/// "s/old/new/g", with any character in place of the slash.
struct Substitution {
  std::string pattern;
  Traced by;
  bool everywhere = false;
};

std::optional<Substitution> substitution(const Traced& text, std::size_t& at) {
  if (at + 1 >= text.text.size() || text.text[at] != 's') return std::nullopt;
  const char cut = text.text[++at];
  ++at;
  std::array<Traced, 2> parts;
  for (Traced& part : parts) {
    for (; at < text.text.size() && text.text[at] != cut; ++at) {
      if (text.text[at] == '\\' && at + 1 < text.text.size() && text.text[at + 1] == cut) ++at;
      part.add(text.text[at], text.places[at]);
    }
    if (at >= text.text.size()) return std::nullopt;
    ++at;
  }
  Substitution out{parts[0].text, parts[1], false};
  for (; at < text.text.size() && text.text[at] != ';' && text.text[at] != '\n'; ++at)
    out.everywhere = out.everywhere || text.text[at] == 'g';
  while (at < text.text.size() && (text.text[at] == ';' || text.text[at] == '\n' || text.text[at] == ' ')) ++at;
  return out;
}

/// The replacement with \1 and & filled in; new characters stand where the replacement was written.
Traced filled(const Traced& by, const std::vector<std::string_view>& found, Place fallback) {
  Traced out;
  for (std::size_t k = 0; k < by.text.size(); ++k) {
    const char c = by.text[k];
    const bool group =
        c == '\\' && k + 1 < by.text.size() && std::isdigit(static_cast<unsigned char>(by.text[k + 1])) != 0;
    if (group || c == '&') {
      const std::size_t n = group ? static_cast<std::size_t>(by.text[k + 1] - '0') : 0;
      if (n < found.size()) out.add(Traced(std::string(found[n]), fallback));
      k += group ? 1 : 0;
    } else if (c == '\\' && k + 1 < by.text.size()) {
      ++k;
      out.add(by.text[k] == 'n' ? '\n' : by.text[k], by.places[k]);
    } else {
      out.add(c, by.places[k]);
    }
  }
  return out;
}

Traced substituted(const Traced& line, const Substitution& s, bool extended) {
  const PosixRegex expression(s.pattern, extended ? PosixRegex::Syntax::extended : PosixRegex::Syntax::basic);
  Traced out;
  std::size_t from = 0;
  while (line.text.size() < kLongestLine) {
    const auto found = expression.search(line.text, from);
    if (!found) break;
    const std::string_view match = found->front();
    const auto at = static_cast<std::size_t>(match.data() - line.text.data());
    out.add(line.part(from, at - from));
    out.add(filled(s.by, *found, line.place()));
    from = at + match.size();
    if (!s.everywhere || match.empty() || from == line.text.size()) break;
  }
  out.add(line.part(from));
  return out;
}

template <class Change>
Traced by_line(const Traced& text, Change change) {
  Traced out;
  for (std::size_t from = 0; from < text.text.size();) {
    const std::size_t end = std::min(text.text.find('\n', from), text.text.size());
    out.add(change(text.part(from, end - from)));
    if (end < text.text.size()) out.add('\n', text.places[end]);
    from = end + 1;
  }
  return out;
}

/// What "%s", "%d" and "%.2f" make of their words.
Traced printed(const std::vector<Traced>& words, Place place) {
  Traced out;
  if (words.size() < 2) return out;
  std::size_t next = 2;
  const std::string& form = words[1].text;
  do {
    for (std::size_t k = 0; k < form.size(); ++k) {
      if (form[k] == '\\' && k + 1 < form.size()) {
        ++k;
        out.add(form[k] == 'n' ? '\n' : form[k] == 't' ? '\t' : form[k], place);
      } else if (form[k] == '%' && k + 1 < form.size() && form[k + 1] != '%') {
        std::size_t end = form.find_first_of("sdifgexu", k + 1);
        if (end == std::string::npos) return out;
        const Traced word = next < words.size() ? words[next] : Traced();
        ++next;
        const bool number = form[end] == 'f' || form[end] == 'g' || form[end] == 'e';
        if (number && !has_unknown(word.text)) {
          const std::size_t dot = form.find('.', k);
          const int digits = dot < end ? std::atoi(form.c_str() + dot + 1) : 6;
          out.add(Traced(fmt::format("{:.{}f}", std::strtod(word.text.c_str(), nullptr), std::clamp(digits, 0, 20)),
                         place));
        } else {
          out.add(word);
        }
        k = end;
      } else {
        if (form[k] == '%') ++k;
        out.add(form[k], place);
      }
    }
  } while (next > 2 && next < words.size());
  return out;
}

}  // namespace

std::optional<Shell::Result> Shell::text_command(const std::vector<Traced>& words, Place place) {
  const std::string& command = words.front().text;
  const auto gives = [](Traced text) { return Result{0, std::move(text), false}; };
  const auto last = [&] { return words.size() > 1 ? words.back().text : std::string(); };
  if (command == "echo") {
    Traced out;
    std::size_t k = 1;
    bool line = true;
    for (; k < words.size() && (words[k].text == "-n" || words[k].text == "-e" || words[k].text == "-ne"); ++k)
      line = line && words[k].text == "-e";
    for (std::size_t first = k; k < words.size(); ++k) {
      if (k > first) out.add(' ', place);
      out.add(words[k]);
    }
    if (line) out.add('\n', place);
    return gives(std::move(out));
  }
  if (command == "printf") return gives(printed(words, place));
  if (command == "pwd") return gives(line_of(".", place));
  if (command == "dirname") {
    const std::string folder = fs::path(last()).parent_path().generic_string();
    return gives(line_of(folder.empty() ? "." : folder, place));
  }
  if (command == "basename") {
    std::string name = fs::path(words.size() > 1 ? words[1].text : "").filename().string();
    if (words.size() > 2 && name.ends_with(words[2].text)) name.resize(name.size() - words[2].text.size());
    return gives(line_of(name, place));
  }
  if (command == "realpath" || command == "readlink") return gives(line_of(last(), place));
  if (command == "cat") {
    Traced out;
    for (std::size_t k = 1; k < words.size(); ++k) {
      if (words[k].text.starts_with('-')) continue;
      const int file = files_.find(words[k].text, scopes_.empty() ? place.file : scopes_.back().file);
      if (file < 0) return Result{0, {}, true};
      out.add(files_.at(file).text);
    }
    if (words.size() == 1 && !input_) return Result{0, {}, true};
    if (words.size() == 1) out = *input_;
    return gives(std::move(out));
  }
  if (command == "tee") {
    if (!input_ || has_unknown(input_->text)) return Result{0, {}, true};
    for (std::size_t k = 1; k < words.size(); ++k)
      if (!words[k].text.starts_with('-')) files_.write(words[k].text, *input_, false);
    return gives(*input_);
  }
  if (command == "sed") {
    std::vector<Substitution> all;
    std::vector<std::string> files;
    bool extended = false, in_place = false, scripted = false;
    for (std::size_t k = 1; k < words.size(); ++k) {
      const std::string& w = words[k].text;
      if (w == "-E" || w == "-r")
        extended = true;
      else if (w.starts_with("-i"))
        in_place = true;
      else if (w == "-e" || w == "-n" || w == "-u")
        continue;
      else if (!scripted || words[k - 1].text == "-e") {
        scripted = true;
        for (std::size_t at = 0; at < words[k].text.size();) {
          auto s = substitution(words[k], at);
          if (!s) return Result{0, {}, true};
          all.push_back(std::move(*s));
        }
      } else {
        files.push_back(w);
      }
    }
    Traced text = input_.value_or(Traced());
    int file = -1;
    if (!files.empty()) {
      file = files_.find(files.front(), scopes_.empty() ? place.file : scopes_.back().file);
      if (file < 0) return Result{0, {}, true};
      text = files_.at(file).text;
    }
    if (files.empty() && (!input_ || has_unknown(text.text))) return Result{0, {}, true};
    try {
      for (const Substitution& s : all)
        text = by_line(text, [&](const Traced& line) { return substituted(line, s, extended); });
    } catch (const std::invalid_argument&) {
      return Result{0, {}, true};
    }
    if (!in_place) return gives(std::move(text));
    files_.write(files_.at(file).path, std::move(text), false);
    return Result{};
  }
  if (command == "tr" && input_ && words.size() >= 3) {
    if (has_unknown(input_->text)) return Result{0, {}, true};
    Traced out = *input_;
    const auto span = [](std::string s) {
      if (s == "[:upper:]" || s == "A-Z") s = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
      if (s == "[:lower:]" || s == "a-z") s = "abcdefghijklmnopqrstuvwxyz";
      return s;
    };
    if (words[1].text == "-d") {
      Traced kept;
      for (std::size_t k = 0; k < out.text.size(); ++k)
        if (words[2].text.find(out.text[k]) == std::string::npos) kept.add(out.text[k], out.places[k]);
      return gives(std::move(kept));
    }
    const std::string from = span(words[1].text), to = span(words[2].text);
    for (char& c : out.text)
      if (const std::size_t n = from.find(c); n != std::string::npos && !to.empty()) c = to[std::min(n, to.size() - 1)];
    return gives(std::move(out));
  }
  if (command == "expr") {
    Traced sum;
    for (std::size_t k = 1; k < words.size(); ++k) sum.add(words[k]);
    Traced out = arithmetic(sum);
    out.add('\n', place);
    return gives(std::move(out));
  }
  if (command == "seq" && words.size() >= 2) {
    const long from = words.size() > 2 ? std::atol(words[1].text.c_str()) : 1, to = std::atol(last().c_str());
    Traced out;
    for (long k = from; k <= to && k < from + 4096; ++k) out.add(line_of(std::to_string(k), place));
    return gives(std::move(out));
  }
  if (command == "envsubst" && input_) return gives(expand_document(*input_));
  return std::nullopt;
}

}  // namespace rehearse::job
