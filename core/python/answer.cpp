#include "core/python/answer.hpp"

#include <algorithm>
#include <sstream>

#include "core/base/error.hpp"
#include "core/base/registry.hpp"
#include "core/cli/verb.hpp"
#include "core/report/formats/format.hpp"

namespace rehearse::python {

namespace {

constexpr int kWidth = 100;  // Of text that nobody asked to be of another width.

class Taker : public cli::Caller {
 public:
  Taker(Answer& answer, const StopAsked& stop) : answer_(answer), stop_(stop) {}
  void take(const Document& answer) override { answer_.document = answer; }
  void take(const HtmlReport& page) override { answer_.page = page; }
  bool stops() override { return stop_(); }

 private:
  Answer& answer_;
  const StopAsked& stop_;
};

const cli::Verb& verb_called(const std::string& name) {
  std::vector<std::string> names;
  for (const cli::Verb& verb : cli::verbs()) {
    if (verb.name == name) return verb;
    names.push_back(verb.name);
  }
  throw unknown_name("verb", name, names);
}

/// The last line that is no remark on the way to an answer.
std::string last_word(const std::string& notes) {
  std::istringstream lines(notes);
  std::string out;
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && !line.starts_with("note: ") && !line.starts_with("wrote ")) out = line;
  return out;
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \n");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \n") - first + 1);
}

}  // namespace

const std::string& Answer::json() const { return document ? document->json : printed; }

std::string Answer::text(const std::string& format, int width) const {
  const Format& write = formats().at(format).value;
  return document ? write(*document, {std::max(40, width), false}) : printed;
}

std::pair<std::string, std::string> Answer::verdict() const {
  std::string said = last_word(notes), advice;
  if (!said.empty() || !document) return {said, advice};
  for (const DocumentBlock& block : document->blocks) {
    if (const auto* paragraph = std::get_if<Paragraph>(&block)) said = paragraph->text, advice.clear();
    if (const auto* picture = std::get_if<Picture>(&block)) advice = trimmed(picture->draw({kWidth, false}));
  }
  return {said, advice.find('\n') == std::string::npos ? advice : ""};
}

Answer run_verb(const std::string& name, const Given& given, const StopAsked& stop) {
  const cli::Verb& verb = verb_called(name);
  cli::Arguments arguments;
  for (const auto& [option, value] : given) arguments.add(option, value);
  Answer out;
  Taker taker(out, stop);
  const StopScope scope(stop);
  std::ostringstream printed, notes;
  cli::Console console{printed, notes, {kWidth, false}, &taker};
  out.code = verb.run(arguments, console);
  out.printed = printed.str();
  out.notes = notes.str();
  return out;
}

}  // namespace rehearse::python
