#pragma once
// --html: the answer of a verb as a page.

#include "core/cli/verb.hpp"
#include "core/report/html/html_report.hpp"

namespace rehearse::cli {

/// --html FILE.
[[nodiscard]] Option html_option();
/// Throws for a path that cannot be written: to be called before long work. Nothing without --html.
void check_html(const Arguments& arguments);

using HtmlParts = std::vector<std::pair<std::string, std::string>>;

/// Writes `document`'s JSON as the page of `kind`, where --html asks for one, and says so on the console, or hands the
/// page to the console's caller. `parts`, which may be dear, is asked only then.
void write_html(const std::string& kind, const Document& document, const Arguments& arguments, Console& console,
                const std::function<HtmlParts()>& parts = {});

}  // namespace rehearse::cli
