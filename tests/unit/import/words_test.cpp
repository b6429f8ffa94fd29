// The tables by which exports write and imports read.

#include <set>

#include "core/config/scenario.hpp"
#include "core/translate/language.hpp"
#include "tests/support/catch.hpp"

namespace rehearse::translate {
namespace {

std::vector<std::string> spoken(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_array()) return value.get<std::vector<std::string>>();
  return {value.is_string() ? value.get<std::string>() : value.dump()};
}

/// Values that a term may stand for.
std::vector<Json> values_of(const Term& t) {
  std::vector<Json> out;
  if (t.sense == Sense::number) out = {8, 1024};
  if (t.sense == Sense::text) out = {"word"};
  for (const auto& [theirs, ours] : t.words)
    if (!ours.is_null()) out.push_back(ours);
  if (t.sense == Sense::toggle)
    for (const Json& v : {t.on, t.off})
      if (!v.is_null()) out.push_back(v);
  return out;
}

TEST_CASE("What is written in a language is read as what was meant") {
  for (const auto& entry : languages().entries())
    for (const Term& t : entry.value.terms) {
      if (!t.written) continue;
      for (const Json& value : values_of(t)) {
        INFO(entry.name << ": " << t.theirs << " = " << value.dump());
        const auto flags = entry.value.say(t.ours, value);
        REQUIRE(flags);
        for (const Flag& f : *flags) {
          const Term* back = entry.value.find(f.name);
          REQUIRE(back != nullptr);
          const Reading reading = read(*back, spoken(f.value));
          REQUIRE(reading.value);
          CHECK(back->ours == t.ours);
          CHECK(reading.value->dump() == value.dump());
        }
      }
    }
}

TEST_CASE("What terms say is a key of a scenario or a fact of the job") {
  std::set<std::string> keys;
  for (const KeyHelp& help : scenario_keys()) keys.insert(help.key);
  for (const auto& entry : languages().entries())
    for (const Term& t : entry.value.terms) {
      INFO(entry.name << ": " << t.theirs << " says " << t.ours);
      if (t.sense == Sense::ignored || t.sense == Sense::asked)
        CHECK_FALSE(t.note.empty());
      else
        CHECK((keys.contains(t.ours) || t.ours.starts_with("job.") || t.ours.starts_with("model.") ||
               t.ours.starts_with("file.")));
    }
}

TEST_CASE("Numbers are read as people write them") {
  const Term t = number("--n", "job.gpus");
  CHECK(read(t, {"9_765_625"}).value == Json(9765625));
  CHECK(read(t, {"1e3"}).value == Json(1000));
  CHECK(read(t, {"0.5"}).value == Json(0.5));
  CHECK_FALSE(read(t, {"many"}).wrong.empty());
  CHECK_FALSE(read(t, {"null"}).value);
}

}  // namespace
}  // namespace rehearse::translate
