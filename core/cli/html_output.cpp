#include "core/cli/html_output.hpp"
#include "core/api/build_info.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "core/api/session/session.hpp"
#include "core/base/error.hpp"
#include "core/report/formats/text_output.hpp"

namespace rehearse::cli {

Option html_option() {
  return {"--html", "FILE", "write a report with pictures there: one file that any browser opens, without network",
          "",       false,  true};
}

void check_html(const Arguments& arguments) {
  if (!arguments.has("--html")) return;
  const std::string file = arguments.text("--html");
  check_output_path(file);
  if (arguments.has("--output") &&
      std::filesystem::weakly_canonical(arguments.text("--output")) == std::filesystem::weakly_canonical(file))
    throw Error(ErrorKind::usage, "is also what -o writes", file, "give --html and -o files of their own");
}

void write_html(const std::string& kind, const Document& document, const Arguments& arguments, Console& console,
                const std::function<HtmlParts()>& parts) {
  if (console.caller == nullptr && !arguments.has("--html")) return;
  const HtmlReport page{kind, rehearse_version(), document.json, document.heading(), parts ? parts() : HtmlParts{}};
  if (console.caller != nullptr) {
    console.caller->take(page);
    return;
  }
  const std::string file = arguments.text("--html");
  write_html_report(file, page);
  console.err << "wrote " << file
              << (has_pictures() ? "\n"
                                 : ", without pictures: this build has no charting library ('./bootstrap "
                                   "install-deps', then build again)\n");
}

}  // namespace rehearse::cli
