#include <algorithm>

#include <fmt/format.h>

#include "core/cli/verb.hpp"
#include "core/report/formats/format.hpp"

namespace rehearse::cli {

namespace {

constexpr int kWidestName = 28;

using Line = std::pair<std::string, std::string>;

std::string listed(const std::vector<Line>& lines, const TextStyle& style) {
  int name = 0;
  for (const Line& l : lines)
    if (columns_of(l.first) <= kWidestName) name = std::max(name, columns_of(l.first));
  const int indent = name + 4;
  std::string out;
  for (const auto& [left, right] : lines) {
    const bool own_line = columns_of(left) > name;
    out += fmt::format("  {:<{}}", left, own_line ? 0 : name) +
           (own_line ? "\n" + std::string(static_cast<std::size_t>(indent), ' ') : "  ");
    out += wrap(right, std::max(20, style.width - indent), indent) + "\n";
  }
  return out;
}

std::string usage_line(const Verb& verb) {
  std::string out = fmt::format("usage: rehearse {}", verb.name);
  for (const Positional& p : verb.positionals) {
    const std::string name = p.name + (p.repeatable ? "..." : "");
    out += p.required ? fmt::format(" {}", name) : fmt::format(" [{}]", name);
  }
  return out + (verb.options.empty() ? "\n" : " [OPTIONS]\n");
}

Line line_of(const Option& o) {
  std::string left = o.name;
  if (const auto comma = left.find(','); comma != std::string::npos) left.insert(comma + 1, " ");
  if (!o.value.empty()) left += fmt::format(" {}", o.value);
  std::string right = o.help;
  if (o.repeatable) right += "; may be repeated";
  if (!o.fallback.empty()) right += fmt::format(" [{}]", o.fallback);
  return {left, right};
}

}  // namespace

std::string help_text(const Verb& verb, const TextStyle& style) {
  std::string out = wrap(verb.summary, style.width) + "\n\n";
  for (const std::string& example : verb.examples) out += fmt::format("  {}\n", example);
  out += fmt::format("\n{}", usage_line(verb));
  std::vector<Line> lines;
  for (const Positional& p : verb.positionals) lines.emplace_back(p.name, p.help);
  for (const Option& o : verb.options) lines.push_back(line_of(o));
  lines.emplace_back("-h, --help", "show this text");
  out += fmt::format("\n{}", listed(lines, style));
  if (!verb.notes.empty()) out += fmt::format("\n{}\n", wrap(verb.notes, style.width));
  return out;
}

std::string overview_text(const TextStyle& style) {
  std::string out =
      wrap("Rehearse plays a training step of a model on a cluster of GPUs before anybody pays for it.", style.width) +
      "\n\n";
  out += "usage: rehearse VERB [ARGUMENTS]\n\n";
  std::vector<Line> lines;
  for (const Verb& v : verbs()) lines.emplace_back(v.name, v.summary);
  out += listed(lines, style);
  return out + "\nrehearse VERB --help says more.\n" +
         wrap(
             "Exit codes: 0 done, 1 failed its check, 2 bad usage or scenario, 3 does not fit, 4 back end unavailable.",
             style.width) +
         "\n";
}

std::string first_steps_text() {
  return "Rehearse plays a training step of a model on a cluster of GPUs. Try:\n\n"
         "  rehearse simulate scenarios/gpt3_175b_a100_1024.json   how long a step takes, and why\n"
         "  rehearse memory scenarios/llama3_70b_h100_64.json      what each GPU must hold\n"
         "  rehearse list models                                   what can be trained\n\n"
         "rehearse --help shows every verb.\n";
}

}  // namespace rehearse::cli
