#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/job/shell/pattern.hpp"
#include "core/import/job/shell/shell.hpp"

namespace rehearse::job {

namespace {

constexpr int kMostRounds = 2000;     // Of one loop: no launch script counts further.
constexpr long kMostSteps = 200'000;  // Commands of one script.
constexpr int kDeepestCalls = 60;     // Functions and scripts that run one another.

}  // namespace

void Shell::run(int file, const std::vector<Traced>& arguments) {
  if (scopes_.size() > kDeepestCalls)
    throw Error(ErrorKind::usage, "scripts run one another too deep", files_.at(file).path);
  parsed_.push_back(std::make_shared<List>(parse_shell(files_.at(file).text, files_.at(file).path)));
  const auto list = parsed_.back();
  read_batch_options(files_.at(file).text);
  scopes_.push_back({arguments, {}, file});
  try {
    run(*list);
  } catch (...) {
    scopes_.pop_back();
    throw;
  }
  scopes_.pop_back();
  flow_ = Flow::on;
}

Shell::Result Shell::run(const List& list) {
  Result last;
  Traced output;
  for (const auto& [join, node] : list) {
    if (flow_ != Flow::on) break;
    if ((join == "&&" && last.status != 0) || (join == "||" && last.status == 0)) continue;
    Result r = run(*node);
    output.add(r.output);
    r.unknown = r.unknown || last.unknown;
    last = std::move(r);
  }
  last.output = std::move(output);
  return last;
}

bool Shell::met(const List& condition) {
  ++conditions_;
  const int status = run(condition).status;
  --conditions_;
  return status == 0;
}

Shell::Result Shell::run(const Node& node) {
  if (++steps_ > kMostSteps) throw Error(ErrorKind::usage, "the script runs too long", files_.where(node.place));
  Result out;
  switch (node.kind) {
    case Node::Kind::simple: return run_simple(node);
    case Node::Kind::pipeline: return run_pipeline(node);
    case Node::Kind::negation:
      ++conditions_;
      out = run(*node.parts.front());
      --conditions_;
      out.status = out.status == 0 ? 1 : 0;
      return out;
    case Node::Kind::group: out = run(node.body); break;
    case Node::Kind::condition: {
      bool done = false;
      for (const auto& [asked, body] : node.cases)
        if (!done && met(asked)) out = run(body), done = true;
      if (!done) out = run(node.body);
      break;
    }
    case Node::Kind::loop: out = run_loop(node); break;
    case Node::Kind::counted: out = run_counted(node); break;
    case Node::Kind::each: out = run_each(node); break;
    case Node::Kind::choice: out = run_choice(node); break;
    case Node::Kind::function: functions_[node.name] = std::make_shared<Node>(node); return out;
    case Node::Kind::arithmetic: {
      const std::string v = arithmetic(node.text).text;
      out.status = has_unknown(v) || v == "0" ? 1 : 0;
      return out;
    }
    case Node::Kind::test: {
      std::vector<Traced> words;
      for (const Word& w : node.words) words.push_back(expand_text(w.raw, false));
      out.status = test(words, true, &node.words, node.place);
      return out;
    }
  }
  write_output(node, out);
  return out;
}

/// Whether a loop ends after this round.
bool Shell::leave_loop() {
  if (flow_ == Flow::continued) flow_ = Flow::on;
  if (flow_ == Flow::broken) {
    flow_ = Flow::on;
    return true;
  }
  return flow_ != Flow::on;
}

Shell::Result Shell::run_loop(const Node& node) {
  Result out;
  const auto& [asked, body] = node.cases.front();
  const std::optional<Traced> before = input_;
  if (auto input = input_of(node)) input_ = std::move(input);
  for (int round = 0; met(asked) == (node.name == "while"); ++round) {
    if (round >= kMostRounds) {
      note("a loop whose end hangs on what is not known was left", node.place);
      break;
    }
    out.output.add(run(body).output);
    if (leave_loop()) break;
  }
  input_ = before;
  return out;
}

Shell::Result Shell::run_counted(const Node& node) {
  Result out;
  std::vector<Traced> parts(1);
  for (std::size_t k = 0; k < node.text.text.size(); ++k) {
    if (node.text.text[k] == ';')
      parts.emplace_back();
    else
      parts.back().add(node.text.text[k], node.text.places[k]);
  }
  parts.resize(3);
  (void)arithmetic(parts[0]);
  for (int round = 0; round < kMostRounds; ++round) {
    const std::string more = arithmetic(parts[1]).text;
    if (has_unknown(more) || more == "0") break;
    out.output.add(run(node.body).output);
    if (leave_loop()) break;
    (void)arithmetic(parts[2]);
  }
  return out;
}

Shell::Result Shell::run_each(const Node& node) {
  Result out;
  for (const Traced& value : expand(node.words)) {
    set(node.name, value);
    out.output.add(run(node.body).output);
    if (leave_loop()) break;
  }
  return out;
}

Shell::Result Shell::run_choice(const Node& node) {
  const std::string value = without_unknown(expand_text(node.words.front().raw, false).text);
  for (const auto& [patterns, body] : node.choices)
    for (const Word& p : patterns)
      if (fits_pattern(value, without_unknown(expand_pattern(p.raw).text))) return run(body);
  return {};
}

Shell::Result Shell::run_pipeline(const Node& node) {
  const std::optional<Traced> before = input_;
  Result r;
  for (std::size_t k = 0; k < node.parts.size(); ++k) {
    ++captures_;  // What goes into a pipe is not started by itself, unless it starts the job.
    const int outer = captures_ - 1;
    if (k + 1 == node.parts.size() || outer == 0) captures_ = outer;
    r = run(*node.parts[k]);
    captures_ = outer;
    input_ = r.unknown ? Traced(unknown_mark("a program's output"), node.place) : r.output;
  }
  input_ = before;
  return r;
}

std::optional<Traced> Shell::input_of(const Node& node) {
  std::optional<Traced> out;
  for (const auto& r : node.redirections) {
    if (r->sign == "<<") out = r->verbatim ? r->target.raw : expand_document(r->target.raw);
    if (r->sign == "<<<") {
      out = expand_text(r->target.raw, false);
      out->add('\n', node.place);
    }
    if (r->sign != "<") continue;
    const int at = files_.find(expand_text(r->target.raw, false).text, node.place.file);
    out = at >= 0 ? files_.at(at).text : Traced(unknown_mark("a file"), node.place);
  }
  return out;
}

/// Puts what was printed where it goes, and leaves only what goes on.
void Shell::write_output(const Node& node, Result& result) {
  for (const auto& r : node.redirections) {
    const bool append = r->sign == ">>" || r->sign == "1>>";
    if (!append && r->sign != ">" && r->sign != ">|" && r->sign != "1>") continue;
    if (r->sign == ">&" || r->target.raw.text == "&2" || r->target.raw.text == "/dev/stderr") continue;
    const std::string path = expand_text(r->target.raw, false).text;
    if (result.unknown || path == "/dev/null") result.output = {};
    if (!result.unknown && path != "/dev/null") files_.write(path, std::move(result.output), append);
    result.output = {};
    result.unknown = false;
  }
}

Shell::Result Shell::run_simple(const Node& node) {
  std::size_t first = 0;
  std::vector<std::pair<std::string, std::optional<ShellVariable>>> before;
  const auto assigned_name = [](const Word& w) {
    const std::size_t end = w.raw.text.find_first_of("[+=");
    return w.raw.text.substr(0, end);
  };
  while (first < node.words.size()) {
    const std::string name = assigned_name(node.words[first]);
    const ShellVariable* old = find(name);
    std::optional<ShellVariable> kept = old != nullptr ? std::optional(*old) : std::nullopt;
    if (!assign_word(node.words[first])) break;
    before.emplace_back(name, std::move(kept));
    ++first;
  }
  Result out;
  if (first == node.words.size()) {
    if (node.words.empty()) write_output(node, out);
    return out;
  }
  std::vector<Word> rest(node.words.begin() + static_cast<std::ptrdiff_t>(first), node.words.end());
  // Assignments before a command are its environment.
  for (const auto& [name, old] : before) variables_[name].exported = true;
  const std::optional<Traced> input_before = input_;
  if (auto input = input_of(node)) input_ = std::move(input);
  const std::string command = rest.front().raw.text;
  if (command == "declare" || command == "local" || command == "export" || command == "readonly" ||
      command == "typeset") {
    Node declaration = node;
    declaration.words = std::move(rest);
    out = declare(declaration, {});
  } else {
    out = call(expand(rest), node.place);
  }
  input_ = input_before;
  const bool ran_inside = command == "." || command == "source";
  for (auto& [name, old] : before) {
    if (ran_inside || name == "IFS") continue;
    if (old)
      variables_[name] = std::move(*old);
    else
      variables_.erase(name);
  }
  write_output(node, out);
  return out;
}

Shell::Result Shell::call(const std::vector<Traced>& words, Place place) {
  // A command that is a variable which nothing sets: the words behind it are what runs.
  std::vector<Traced> known = words;
  while (!known.empty() && without_unknown(known.front().text).empty()) known.erase(known.begin());
  if (known.empty()) return {};
  const auto function = functions_.find(known.front().text);
  if (function != functions_.end()) return call_function(*function->second, known);
  if (auto r = builtin(known, place)) return std::move(*r);
  if (auto r = text_command(known, place)) return std::move(*r);
  return external(known, place);
}

Shell::Result Shell::call_function(const Node& function, const std::vector<Traced>& words) {
  if (scopes_.size() > kDeepestCalls) return {};
  const int file = scopes_.empty() ? -1 : scopes_.back().file;
  scopes_.push_back({{words.begin() + 1, words.end()}, {}, file});
  const Node body = function;
  Result out = run(body.body);
  for (auto& [name, old] : scopes_.back().hidden) {
    if (old)
      variables_[name] = std::move(*old);
    else
      variables_.erase(name);
  }
  scopes_.pop_back();
  if (flow_ == Flow::returned) flow_ = Flow::on;
  return out;
}

}  // namespace rehearse::job
