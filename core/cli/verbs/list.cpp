#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/cli/output.hpp"
#include "core/cli/verbs.hpp"
#include "core/cli/verbs/listings.hpp"

namespace rehearse::cli {

namespace {

std::string json_of(const std::string& kind, const Table& table) {
  nlohmann::ordered_json out{
      {"schema", "rehearse/list/v1"}, {"kind", kind}, {"entries", nlohmann::ordered_json::array()}};
  for (const auto& row : table.rows) {
    auto entry = nlohmann::ordered_json::object();
    for (std::size_t c = 0; c < row.size(); ++c) entry[table.columns[c].title] = row[c];
    out["entries"].push_back(std::move(entry));
  }
  return out.dump(2) + "\n";
}

int list(const Arguments& arguments, Console& console) {
  const std::string kind = arguments.text("WHAT");
  const DataDirectory data = find_data();
  const Table table = listing(kind, data);
  print({listing_to_read(kind, data, arguments.has("--all")), table, json_of(kind, table)}, arguments, console);
  return 0;
}

}  // namespace

Verb list_verb() {
  Verb verb{"list",
            "Everything that has a name.",
            {"rehearse list models", "rehearse list machines --format md", "rehearse list keys --all"},
            {{"WHAT", fmt::format("{}", fmt::join(listing_kinds(), ", "))}},
            {{"--all", "", "of keys, also what frameworks do and what few set"}},
            "",
            list};
  for (Option& o : result_options()) verb.options.push_back(std::move(o));
  std::erase_if(verb.options, [](const Option& o) { return o.name == "--set"; });
  return verb;
}

}  // namespace rehearse::cli
