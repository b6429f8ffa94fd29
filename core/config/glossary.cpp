#include "core/config/glossary.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/near_names.hpp"
#include "core/config/json_file.hpp"
#include "core/config/object_reader.hpp"

namespace rehearse {

namespace {

/// What names are compared by: small letters, without what joins words.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == ' ') continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

Term read_term(ObjectReader& entry) {
  Term out;
  out.term = entry.string("term");
  out.also = entry.strings("also");
  out.summary = entry.string("summary");
  out.text = entry.string("text");
  out.see = entry.strings("see");
  out.source = entry.string("source");
  entry.finish();
  if (plain(out.term).empty()) entry.fail("term", "a term needs a name");
  return out;
}

/// Each name once, and only terms under `see`.
void check(const std::vector<Term>& terms, const std::vector<ObjectReader>& entries) {
  std::map<std::string, std::string> owners;
  std::vector<std::string> known;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    known.push_back(terms[i].term);
    std::vector<std::string> names{terms[i].term};
    names.insert(names.end(), terms[i].also.begin(), terms[i].also.end());
    for (const std::string& name : names)
      if (const auto [at, fresh] = owners.emplace(plain(name), terms[i].term); !fresh)
        entries[i].fail(name == terms[i].term ? "term" : "also",
                        fmt::format("'{}' is already a name of '{}'", name, at->second));
  }
  for (std::size_t i = 0; i < terms.size(); ++i)
    for (const std::string& other : terms[i].see)
      if (std::find(known.begin(), known.end(), other) == known.end()) {
        const std::vector<std::string> near = near_names(other, known);
        entries[i].fail("see", fmt::format("unknown term '{}'", other), question_of(near));
      }
}

}  // namespace

std::vector<std::string> Glossary::names() const {
  std::vector<std::string> out;
  for (const Term& t : terms_) {
    out.push_back(t.term);
    out.insert(out.end(), t.also.begin(), t.also.end());
  }
  return out;
}

const Term* Glossary::find(std::string_view word) const {
  const std::string wanted = plain(word);
  for (const Term& t : terms_) {
    if (plain(t.term) == wanted) return &t;
    for (const std::string& name : t.also)
      if (plain(name) == wanted) return &t;
  }
  return nullptr;
}

const Term& Glossary::at(std::string_view word) const {
  if (const Term* found = find(word)) return *found;
  throw unknown_of_many("term", word, names(), "rehearse list glossary");
}

Glossary parse_glossary(std::string_view json_text, const std::string& origin) {
  static const std::array<std::string, 1> kSchemas{"rehearse/glossary/v1"};
  const nlohmann::json document = parse_json(json_text, origin);
  ObjectReader file(document, origin);
  file.choice("schema", kSchemas);
  file.expect("notes");
  std::vector<ObjectReader> entries = file.objects("terms");
  file.finish();
  std::vector<Term> terms;
  for (ObjectReader& entry : entries) terms.push_back(read_term(entry));
  check(terms, entries);
  return Glossary(std::move(terms));
}

Glossary load_glossary(const std::string& path) { return parse_glossary(read_text(path), path); }

}  // namespace rehearse
