#pragma once
// Options that every verb with a result shares, and where the result goes.

#include "core/cli/verb.hpp"
#include "core/report/formats/document.hpp"

namespace rehearse {
struct Scenario;
}

namespace rehearse::cli {

/// SCENARIO.
[[nodiscard]] Positional scenario_positional();
/// -o.
[[nodiscard]] Option output_option();
/// --format. `help` says of what.
[[nodiscard]] Option format_option(const std::string& help, const std::string& fallback);
/// --set, --format, -o.
[[nodiscard]] std::vector<Option> result_options();
/// --observed. `what` says which files are taken.
[[nodiscard]] Option observed_option(
    const std::string& what = "rows as 'validate --measurements' takes them, or a trace of the scenario's job");
/// --dry-run.
[[nodiscard]] Option dry_run_option();
/// One line each to standard error: former spellings in the scenario, and what its framework cannot do.
void print_warnings(const Scenario& scenario, Console& console);

/// --despite-memory
[[nodiscard]] Option despite_memory_option();

/// Prints `document` as --format says (by default as the suffix of -o, else as a table) to -o or the console, or hands
/// it to the console's caller. Throws
/// Error (usage) for an unknown format, and for a file that cannot be written.
void print(const Document& document, const Arguments& arguments, Console& console);
/// Throws for a wrong --format, and where --output or --trace name what cannot be written: to be called before long
/// work. With `trace_folder`, --trace may name a folder.
void check_output(const Arguments& arguments, bool trace_folder = false);

}  // namespace rehearse::cli
