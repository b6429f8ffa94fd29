#include "core/scoreboard/rows/row_fields.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/portable.hpp"

namespace rehearse {

namespace {

/// A number that somebody wrote as a text.
FieldValue as_number(const FieldValue& v) {
  const auto* s = std::get_if<std::string>(&v);
  if (s == nullptr || s->empty()) return v;
  double number = 0;
  const auto [end, failed] = number_from_chars(s->data(), s->data() + s->size(), number);
  return failed == std::errc{} && end == s->data() + s->size() ? FieldValue{number} : v;
}

/// Whether one letter more, one less, another one, or two that changed places make the difference.
bool one_slip_apart(const std::string& a, const std::string& b) {
  if (a.size() > b.size()) return one_slip_apart(b, a);
  if (b.size() - a.size() > 1 || a == b) return false;
  const std::size_t at = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
  if (a.size() < b.size()) return a.compare(at, std::string::npos, b, at + 1) == 0;
  if (a.compare(at + 1, std::string::npos, b, at + 1) == 0) return true;
  return at + 1 < a.size() && a[at] == b[at + 1] && a[at + 1] == b[at] &&
         a.compare(at + 2, std::string::npos, b, at + 2) == 0;
}

}  // namespace

RowFields::RowFields(const Measurement& row, const RowDefaults& any) : row_(row) {
  for (const RowDefaults* table : {row.defaults.get(), &any})
    if (table != nullptr)
      for (const RowDefaults::Entry& entry : table->entries())
        for (const auto& conditions : entry.when)
          for (const RowDefaults::Condition& condition : conditions) conditions_.insert(condition.field);
  std::map<std::string, RowDefault> own;
  if (row.defaults != nullptr) own = row.defaults->defaults_for(row);
  Measurement known = row;  // What goes for rows of any file may ask whether their software is known.
  if (const auto at = own.find("profile"); at != own.end()) known.config.try_emplace("profile", at->second.value);
  defaults_ = any.defaults_for(known);
  for (auto& [field, value] : own) defaults_[field] = value;
}

std::vector<std::string> RowFields::keys() const {
  std::vector<std::string> out;
  for (const auto& [field, value] : defaults_)
    if (field.find('.') != std::string::npos) out.push_back(field);
  return out;
}

bool RowFields::evades(std::string_view text) {
  const std::string t = lowered(text);
  return t.empty() || t.starts_with("see ") || t.starts_with("not stated") || t.starts_with("none stated") ||
         t.starts_with("unstated") || t.starts_with("unknown");
}

void RowFields::note(const std::string& field, const std::string& value, const std::string& from, Evidence evidence) {
  if (told_.insert(field).second) trail_.push_back({field, value, from, evidence});
}

void RowFields::guess(const std::string& field, const std::string& value, const std::string& why) {
  note(field, value, why, Evidence::estimate);
  if (std::find(guessed_.begin(), guessed_.end(), field) == guessed_.end()) guessed_.push_back(field);
}

FieldValue RowFields::said(const std::string& field) const {
  const auto at = row_.config.find(field);
  if (at == row_.config.end() || std::holds_alternative<std::monostate>(at->second)) return {};
  const auto* text = std::get_if<std::string>(&at->second);
  return text != nullptr && evades(*text) ? FieldValue{} : at->second;
}

void RowFields::guess_misspelt() {
  std::vector<std::string> missing;
  for (const std::string& field : asked_)
    if (!row_.config.contains(field)) missing.push_back(field);
  for (const auto& [field, value] : row_.config) {
    constexpr std::size_t kShort = 5;  // Names like "dp" and "ep" are all near.
    if (asked_.contains(field) || conditions_.contains(field) || field.size() < kShort ||
        std::holds_alternative<std::monostate>(value))
      continue;
    const std::string& said = field;
    const auto meant = std::find_if(missing.begin(), missing.end(), [&said](const std::string& other) {
      return other.size() >= kShort && one_slip_apart(said, other);
    });
    if (meant != missing.end()) guess(*meant, "as it is where nobody says", field + " is no field of rows");
  }
}

FieldValue RowFields::find(const std::string& field) {
  asked_.insert(field);
  const FieldValue here = said(field);
  if (!std::holds_alternative<std::monostate>(here)) {
    note(field, text_of(here), "row");
    return here;
  }
  const auto at = defaults_.find(field);
  if (at == defaults_.end() || std::holds_alternative<std::monostate>(at->second.value)) return {};
  const RowDefault& d = at->second;
  note(field, text_of(d.value), d.why.empty() ? d.source.text : fmt::format("{} ({})", d.source.text, d.why),
       d.source.evidence);
  return d.value;
}

std::string RowFields::fallback(const std::string& field) {
  const auto at = defaults_.find(field);
  if (at == defaults_.end()) return {};
  trail_.push_back({field, text_of(at->second.value), at->second.source.text, at->second.source.evidence});
  return text_of(at->second.value);
}

std::string RowFields::text(const std::string& field) {
  const FieldValue v = find(field);
  if (std::holds_alternative<std::monostate>(v)) return {};
  if (const auto* s = std::get_if<std::string>(&v)) return *s;
  return text_of(v);
}

bool RowFields::truth(const std::string& field) {
  const FieldValue v = find(field);
  if (std::holds_alternative<std::monostate>(v)) return false;
  if (const auto* b = std::get_if<bool>(&v)) return *b;
  throw RowSkipped("malformed row", fmt::format("{} is neither true nor false: {}", field, text_of(v).substr(0, 60)));
}

std::optional<std::int64_t> RowFields::whole(const std::string& field, std::int64_t most) {
  const FieldValue v = as_number(find(field));
  if (std::holds_alternative<std::monostate>(v)) return std::nullopt;
  const auto* d = std::get_if<double>(&v);
  if (d == nullptr || !(*d >= 1) || *d > static_cast<double>(most) || *d != std::floor(*d))
    throw RowSkipped("malformed row",
                     fmt::format("{} is no whole number from 1 to {}: {}", field, most, text_of(v).substr(0, 60)));
  return static_cast<std::int64_t>(*d);
}

std::optional<double> RowFields::number(const std::string& field, double below) {
  const FieldValue v = as_number(find(field));
  if (std::holds_alternative<std::monostate>(v)) return std::nullopt;
  const auto* d = std::get_if<double>(&v);
  if (d == nullptr || !(*d >= 0 && *d < below))
    throw RowSkipped("malformed row",
                     fmt::format("{} is no number from 0 to below {}: {}", field, below, text_of(v).substr(0, 60)));
  return *d;
}

std::int64_t RowFields::needed(const std::string& field, std::int64_t most) {
  if (const auto v = whole(field, most)) return *v;
  throw RowSkipped("field missing: " + field);
}

std::string RowFields::needed_text(const std::string& field) {
  std::string v = text(field);
  if (v.empty()) throw RowSkipped("field missing: " + field);
  return v;
}

}  // namespace rehearse
