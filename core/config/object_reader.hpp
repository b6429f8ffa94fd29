#pragma once
// Typed access to one JSON object that remembers where it is and what was asked, so that every mistake in a file is
// reported with its place, what was found and what was wanted, and no key is ever silently ignored.
//
//   ObjectReader machine(document, "dgx_a100.json");
//   const std::string id = machine.string("id");
//   const Watts power = machine.quantity<Watts>("power");        // "6.5kW"; a bare 6500 is an error that names the
//   units const int sockets = int(machine.integer("sockets", {1, 8}, 2));  // 2 when the key is absent for
//   (ObjectReader& link : machine.objects("links")) { ...; link.finish(); } machine.finish(); // unknown keys, with
//   did-you-mean
//
// All errors are Error (usage) with `where` "origin: /json/path".

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/units.hpp"

namespace rehearse {

inline constexpr double kExactIntegers = 9007199254740992.0;  ///< 2^53: beyond it a double skips integers.

/// Both ends belong to the range.
struct IntegerRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};
struct NumberRange {
  double min = -std::numeric_limits<double>::max();
  double max = std::numeric_limits<double>::max();
};

class ObjectReader {
 public:
  /// `value` must outlive the reader. `path` is the JSON pointer of `value` in its document. Throws when it is not an
  /// object.
  ObjectReader(const nlohmann::json& value, std::string origin, std::string path = {});

  /// From here on a key whose value is null counts as absent, as in Hugging Face files.
  void take_null_as_absent() { null_is_absent_ = true; }

  [[nodiscard]] bool has(const std::string& key) const;
  [[nodiscard]] std::vector<std::string> keys() const;

  // With one argument (and a range) the key must be there; with a last argument `fallback` it may be absent.
  std::string string(const std::string& key);
  std::string string(const std::string& key, const std::string& fallback);
  bool boolean(const std::string& key);
  bool boolean(const std::string& key, bool fallback);
  /// 1e6 and 2.0 are integers, 2.5 and "2" are not.
  std::int64_t integer(const std::string& key, IntegerRange range = {});
  std::int64_t integer(const std::string& key, IntegerRange range, std::int64_t fallback);
  double number(const std::string& key, NumberRange range = {});
  double number(const std::string& key, NumberRange range, double fallback);
  /// A text with a unit, as parse<Q> takes it.
  template <class Q>
  Q quantity(const std::string& key);
  template <class Q>
  Q quantity(const std::string& key, Q fallback) {
    return has(key) ? quantity<Q>(key) : (expect(key), fallback);
  }
  /// A text out of `valid`; anything else is an error with the nearest valid one.
  std::string choice(const std::string& key, std::span<const std::string> valid);
  std::string choice(const std::string& key, std::span<const std::string> valid, const std::string& fallback);

  std::vector<std::string> strings(const std::string& key);
  std::vector<double> numbers(const std::string& key, NumberRange range = {});
  ObjectReader object(const std::string& key);
  std::optional<ObjectReader> optional_object(const std::string& key);
  /// The objects of an array.
  std::vector<ObjectReader> objects(const std::string& key);
  /// Whatever is there; nullptr when the key is absent.
  const nlohmann::json* raw(const std::string& key);

  /// Counts `key` as known without reading it.
  void expect(const std::string& key) { asked_.insert(key); }
  /// Keys of the object that nothing has asked for.
  [[nodiscard]] std::vector<std::string> unknown_keys() const;
  /// Throws when a key was never asked for, with did-you-mean and the keys that were.
  void finish() const;

  [[nodiscard]] const std::string& origin() const { return origin_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// "origin: /path/key"; without a key, the object's own place.
  [[nodiscard]] std::string where(const std::string& key = {}) const;
  /// Throws Error (usage) at `key`.
  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& hint = {}) const;

 private:
  const nlohmann::json& need(const std::string& key, std::string_view wanted);
  [[noreturn]] void fail_type(const std::string& key, std::string_view wanted, const nlohmann::json& found,
                              const std::string& hint = {}) const;
  const nlohmann::json& need_array(const std::string& key, std::string_view wanted);

  const nlohmann::json* value_;
  std::string origin_;
  std::string path_;
  std::set<std::string> asked_;
  bool null_is_absent_ = false;
};

/// "string \"eight\"", "number 2.5", "array [1,2]", "null": a value as error messages quote it, cut when long.
[[nodiscard]] std::string describe_value(const nlohmann::json& value);

}  // namespace rehearse
