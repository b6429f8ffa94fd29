#include <algorithm>

#include <fmt/format.h>

#include "core/api/session/session.hpp"
#include "core/base/error.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verbs/import/import_parts.hpp"
#include "core/import/job/job_report.hpp"
#include "core/report/formats/text_output.hpp"

namespace rehearse::cli {

namespace {

job::JobOptions job_options(const Arguments& arguments) {
  job::JobOptions out;
  out.files = arguments.all("FILE");
  out.launch = arguments.text("--launch");
  for (const std::string& text : arguments.all("--env")) {
    const std::size_t sign = text.find('=');
    if (sign == std::string::npos || sign == 0)
      throw Error(ErrorKind::usage, fmt::format("'{}' sets no variable", text), "--env", "--env NNODES=4");
    out.environment[text.substr(0, sign)] = text.substr(sign + 1);
  }
  out.job = static_cast<int>(std::min<std::int64_t>(arguments.whole("--job", 1, 0), 1'000'000));
  out.framework = arguments.text("--framework");
  out.cluster = arguments.text("--cluster");
  out.network = arguments.text("--network");
  out.gpus = arguments.whole("--gpus", 1, 0);
  out.model = arguments.text("--model");
  out.vocabulary = arguments.whole("--vocabulary", 1, 0);
  out.set = arguments.all("--set");
  return out;
}

/// The report for whoever reads: beside a scenario on standard output it goes to standard error.
void print_report(const job::ImportedJob& imported, const job::JobOptions& options, const std::string& written,
                  const Arguments& arguments, Console& console) {
  Arguments form;
  if (arguments.has("--format")) form.add("--format", arguments.text("--format"));
  Console beside{console.err, console.err, console.style};
  print(job::job_document(imported, options.files.front(), written), form,
        written.empty() || imported.scenario.empty() ? beside : console);
}

}  // namespace

int import_job(const Arguments& arguments, Console& console) {
  Arguments form;
  if (arguments.has("--format")) form.add("--format", arguments.text("--format"));
  check_output(form);
  const job::JobOptions options = job_options(arguments);
  const DataDirectory data = find_data();
  const Catalogue catalogue(data.topologies());
  const job::ImportedJob imported =
      job::import_job(options, catalogue, Frameworks::load(data.frameworks()), data.models());
  const std::string output = arguments.text("--output", "-");
  const bool to_file = output != "-";
  if (imported.scenario.empty()) {
    print_report(imported, options, "", arguments, console);
    const job::Missing missing = job::missing_of(imported);
    throw Error(ErrorKind::usage, missing.what, options.files.front(), missing.hint);
  }
  // As it will be read: what does not fit together is said now.
  (void)open_session(parse_scenario(imported.scenario, to_file ? output : options.files.front()));
  if (to_file) write_file(output, imported.scenario);
  print_report(imported, options, to_file ? output : "", arguments, console);
  if (!to_file) console.out << imported.scenario;
  return 0;
}

}  // namespace rehearse::cli
