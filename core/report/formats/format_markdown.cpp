// "md": GitHub's Markdown, for pages and issues.

#include <fmt/format.h>

#include "core/report/formats/format.hpp"

namespace rehearse {

namespace {

constexpr int kPictureWidth = 100;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '*' || c == '_') out += '\\';
    out += c;
  }
  return out;
}

class MarkdownPrinter {
 public:
  std::string operator()(const Heading& h) const { return "## " + escaped(h.text) + "\n"; }
  std::string operator()(const Paragraph& p) const { return escaped(p.text) + "\n"; }
  std::string operator()(const Picture& p) const {
    return title(p.title) + "```text\n" + p.draw({kPictureWidth, false}) + "```\n";
  }

  std::string operator()(const Facts& facts) const {
    std::string out = title(facts.title) + "| | |\n|---|---|\n";
    for (const auto& [name, value] : facts.rows) out += fmt::format("| {} | {} |\n", escaped(name), escaped(value));
    return out;
  }

  std::string operator()(const Table& table) const {
    std::string out = title(table.title) + "|", rule = "|";
    for (const Column& c : table.columns) {
      out += fmt::format(" {} |", escaped(c.title));
      rule += c.number ? "--:|" : "---|";
    }
    out += "\n" + rule + "\n";
    for (const auto& row : table.rows) {
      out += "|";
      for (const std::string& cell : row) out += fmt::format(" {} |", escaped(cell));
      out += "\n";
    }
    return out;
  }

 private:
  static std::string title(const std::string& text) { return text.empty() ? "" : "**" + escaped(text) + "**\n\n"; }
};

std::string print_format_markdown(const Document& document, const TextStyle&) {
  std::string out;
  for (const DocumentBlock& block : document.blocks)
    out += (out.empty() ? "" : "\n") + std::visit(MarkdownPrinter(), block);
  return out;
}

[[maybe_unused]] const bool registered_format_markdown =
    formats().add({"md", "Markdown tables, for pages and issues", {}, print_format_markdown});

}  // namespace

}  // namespace rehearse
