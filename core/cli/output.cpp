#include "core/cli/output.hpp"

#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/config/scenario.hpp"
#include "core/report/formats/format.hpp"
#include "core/report/formats/text_output.hpp"

namespace rehearse::cli {

namespace {

constexpr int kFileWidth = 100;

std::string format_name(const Arguments& arguments) {
  if (arguments.has("--format")) return arguments.text("--format");
  const std::string file = arguments.text("--output");
  const std::string suffix = std::filesystem::path(file).extension().string();
  for (const auto& entry : formats().entries())
    if (suffix == "." + entry.name) return entry.name;
  std::error_code none;
  const bool device = std::filesystem::exists(file, none) && !std::filesystem::is_regular_file(file, none);
  if (suffix.empty() || suffix == ".txt" || device) return "table";
  throw Error(ErrorKind::usage, fmt::format("'{}' is the suffix of no format", suffix), file,
              "name it .json, .csv, .md or .txt, or say what to write with --format; --html writes a page");
}

const Format& format_of(const Arguments& arguments) {
  const std::string name = format_name(arguments);
  try {
    return formats().at(name).value;
  } catch (Error& e) {
    e.where = "--format";
    throw;
  }
}

}  // namespace

Positional scenario_positional() { return {"SCENARIO", "scenario file (rehearse/scenario/v1)"}; }

Option format_option(const std::string& help, const std::string& fallback) {
  return {"--format", "FORMAT", help, fallback, false, true};
}

Option output_option() { return {"-o,--output", "FILE", "write the result there", "standard output", false, true}; }

std::vector<Option> result_options() {
  return {
      {"--set", "KEY=VALUE", "change a key of the scenario, such as strategy.tp=8 ('rehearse list keys')", "", true},
      format_option(fmt::format("form of the result: {}", fmt::join(formats().names(), ", ")),
                    "table, or as the suffix of -o says"),
      output_option()};
}

void print_warnings(const Scenario& scenario, Console& console) {
  for (const std::string& warning : scenario.warnings) console.err << "note: " << warning << '\n';
}

Option despite_memory_option() {
  return {"--despite-memory", "", "step time of a plan that does not fit, too; the exit code is 3 as without"};
}

Option observed_option(const std::string& what) {
  return {"--observed", "FILE",
          "steps that you measured, which shift and narrow the likely range: " + what +
              "; the range without them is "
              "shown, too",
          "", true};
}
Option dry_run_option() { return {"--dry-run", "", "print the scenario with every default written out, and stop"}; }

void check_output(const Arguments& arguments, bool trace_folder) {
  (void)format_of(arguments);
  for (const std::string option : {"--output", "--trace"}) {
    if (!arguments.has(option) || arguments.text(option) == "-") continue;
    const std::filesystem::path path = arguments.text(option);
    const bool folder = trace_folder && option == "--trace" && std::filesystem::is_directory(path);
    check_output_path((folder ? path / "rank0.json.gz" : path).string());
  }
}

void print(const Document& document, const Arguments& arguments, Console& console) {
  if (console.caller != nullptr) {
    console.caller->take(document);
    return;
  }
  const Format& format = format_of(arguments);
  const std::string file = arguments.text("--output", "-");
  if (file == "-") {
    console.out << format(document, console.style);
    return;
  }
  write_file(file, format(document, {kFileWidth, false}));
  console.err << "wrote " << file << "\n";
}

}  // namespace rehearse::cli
