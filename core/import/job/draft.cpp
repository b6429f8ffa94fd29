#include "core/import/job/draft.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/job/collect.hpp"
#include "core/translate/language.hpp"

namespace rehearse::job {

const Fact* Draft::find(const std::string& name) const {
  const auto at = facts.find(name);
  return at == facts.end() ? nullptr : &at->second;
}

std::int64_t Draft::whole(const std::string& name, std::int64_t fallback) const {
  const Fact* f = find(name);
  return f == nullptr || !f->value.is_number() ? fallback : static_cast<std::int64_t>(f->value.get<double>());
}

double Draft::real(const std::string& name, double fallback) const {
  const Fact* f = find(name);
  return f == nullptr || !f->value.is_number() ? fallback : f->value.get<double>();
}

bool Draft::flag(const std::string& name, bool fallback) const {
  const Fact* f = find(name);
  return f == nullptr || !f->value.is_boolean() ? fallback : f->value.get<bool>();
}

std::string Draft::word(const std::string& name, const std::string& fallback) const {
  const Fact* f = find(name);
  if (f == nullptr) return fallback;
  return f->value.is_string() ? f->value.get<std::string>() : f->value.dump();
}

std::vector<std::string> Draft::list(const std::string& name) const {
  const Fact* f = find(name);
  if (f == nullptr) return {};
  if (!f->value.is_array()) return {word(name)};
  std::vector<std::string> out;
  for (const Json& v : f->value) out.push_back(v.is_string() ? v.get<std::string>() : v.dump());
  return out;
}

void Draft::follow(const std::string& name, Json value) {
  if (!has(name)) facts[name] = {std::move(value), "", ""};
}

void Draft::replace(const std::string& name, Json value) { facts[name].value = std::move(value); }

std::string Draft::said(const std::string& name) const {
  const Fact* f = find(name);
  if (f == nullptr || f->theirs.empty()) return {};
  return f->where.empty() ? f->theirs : fmt::format("{}: {}", f->where, f->theirs);
}

namespace {

using translate::Language;
using translate::Sense;
using translate::Term;

std::string plain(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string turned(const std::string& word) {
  for (const char* yes : {"true", "True", "1", "yes", "on"})
    if (word == yes) return "false";
  return "true";
}

class Taker {
 public:
  Taker(Draft& draft, std::vector<std::string>& releases) : draft_(draft), releases_(releases) {}

  void take(const Section& section) {
    const std::size_t first = draft_.outcomes.size();
    for (auto s = section.settings.rbegin(); s != section.settings.rend(); ++s)
      draft_.outcomes.push_back(take(section, *s));
    std::reverse(draft_.outcomes.begin() + static_cast<std::ptrdiff_t>(first), draft_.outcomes.end());
  }

  /// What was asked for and somebody else says needs no question.
  void settle() {
    for (Outcome& o : draft_.outcomes)
      if (o.kind == Outcome::Kind::asked && !o.key.empty() && draft_.has(o.key)) {
        o.kind = Outcome::Kind::ignored;
        o.why = fmt::format("said by {}", draft_.said(o.key));
      }
  }

 private:
  Outcome take(const Section& section, const JobSetting& s) {
    Outcome out{Outcome::Kind::ignored, s.name, readable(s.text()), s.where, {}, {}, {}};
    const Known known = section.language.empty() ? Known{} : known_as(section.language, s.name);
    const Language* language = known.name.empty() ? nullptr : translate::languages().find(known.language);
    const Term* term = language == nullptr ? nullptr : language->find(known.name);
    if (term == nullptr) return unknown(std::move(out), section);
    if (term->sense == Sense::ignored) return out.why = term->note, out;
    std::vector<std::string> values = s.values;
    if (known.inverted && !values.empty()) values[0] = turned(values[0]);
    if (term->sense == Sense::asked) return out.kind = Outcome::Kind::asked, out.why = term->note, out;
    return said(std::move(out), *term, values, section);
  }

  static Outcome unknown(Outcome out, const Section& section) {
    if (out.value == "null" || out.value == "{}") return out.why = "says nothing", out;
    out.kind = Outcome::Kind::asked;
    const Language* language = translate::languages().find(section.language);
    out.why = language == nullptr ? "not known: if it changes the step, state the key that says it with --set "
                                    "KEY=VALUE ('rehearse list keys')"
                                  : fmt::format(
                                        "not known among the settings of {}: if it changes the step, state the key "
                                        "that says it with --set KEY=VALUE ('rehearse list keys')",
                                        language->title);
    return out;
  }

  /// A value that a script takes from elsewhere.
  static Outcome missing(Outcome out, const Term& term, const std::vector<std::string>& values) {
    if (term.ours.starts_with("model.tokenizer") || term.ours.starts_with("model.vocabulary_file") ||
        term.ours.starts_with("file."))
      return out.why = "its name is not known, and the vocabulary's size is asked for where it is needed", out;
    out.kind = Outcome::Kind::asked;
    out.key = term.ours;
    std::string name;
    for (const std::string& v : values)
      if (name.empty()) name = first_unknown(v);
    const bool argument = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    const bool variable = !name.empty() && name.find_first_of("$( ") == std::string::npos;
    out.why =
        argument
            ? fmt::format("is the script's argument {}: give the command with --launch 'bash SCRIPT ARGUMENT...'", name)
        : variable ? fmt::format("hangs on {}, which nothing here sets: --env {}=VALUE", name, name)
                   : fmt::format("is what {} gives where the job runs", name);
    return out;
  }

  Outcome said(Outcome out, const Term& term, const std::vector<std::string>& values, const Section& section) {
    const bool of_ranks =
        section.language == "launcher" || section.language == "environment" || section.language == "mlperf";
    if (const auto open = open_.find(term.ours); open != open_.end() && !of_ranks)
      return out.why = fmt::format("{} goes first, and hangs on what is not known", open->second), out;
    if (values.size() == 1 && values[0] == "auto" && term.words.empty()) return out.why = "left to the software", out;
    for (const std::string& v : values)
      if (has_unknown(v)) {
        if (!of_ranks) open_.emplace(term.ours, out.setting);
        return missing(std::move(out), term, values);
      }
    const translate::Reading reading = translate::read(term, values);
    if (!reading.wrong.empty()) {
      out.kind = Outcome::Kind::asked;
      out.key = term.ours;
      out.why = fmt::format(
          "{}; state {} with --set", reading.wrong,
          term.ours.starts_with("job.") || term.ours.starts_with("model.") ? "the key that it means" : term.ours);
      return out;
    }
    if (!reading.value) return out.why = values.empty() ? "says nothing here" : "is what a job has without it", out;
    const auto [at, fresh] = draft_.facts.try_emplace(term.ours, Fact{*reading.value, out.setting, out.where});
    if (!fresh && !(at->second.value == *reading.value)) {
      out.why = fmt::format("{} says otherwise ({}), and goes first", draft_.said(term.ours), plain(at->second.value));
      return out;
    }
    out.kind = Outcome::Kind::taken;
    out.key = term.ours;
    out.result = plain(*reading.value);
    if (!term.until.empty()) releases_.push_back(term.until);
    return out;
  }

  Draft& draft_;
  std::vector<std::string>& releases_;
  std::map<std::string, std::string> open_;  ///< Keys and facts that a setting says, with a value that is not known.
};

}  // namespace

void take_settings(const std::vector<Section>& sections, Draft& draft, std::vector<std::string>& last_releases) {
  Taker taker(draft, last_releases);
  for (const Section& s : sections) taker.take(s);
  taker.settle();
}

}  // namespace rehearse::job
