// The manual page, written from the table of verbs.

#include <fmt/format.h>

#include "core/api/build_info.hpp"
#include "core/api/session/session.hpp"
#include "core/cli/verbs.hpp"

namespace rehearse::cli {

namespace {

/// Text as roff takes it: no control line, no escape, no dash that becomes a hyphen.
std::string roff(const std::string& text) {
  std::string out;
  if (!text.empty() && (text.front() == '.' || text.front() == '\'')) out += "\\&";
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string option_names(const Option& o) {
  std::string names = o.name;
  const std::size_t comma = names.find(',');
  std::string out = "\\fB" + roff(names.substr(0, comma)) + "\\fR";
  if (comma != std::string::npos) out += ", \\fB" + roff(names.substr(comma + 1)) + "\\fR";
  return o.value.empty() ? out : out + " \\fI" + roff(o.value) + "\\fR";
}

std::string verb_text(const Verb& verb) {
  std::string usage = fmt::format("\\fBrehearse {}\\fR", roff(verb.name));
  for (const Positional& p : verb.positionals) {
    const std::string name = fmt::format("\\fI{}{}\\fR", roff(p.name), p.repeatable ? "..." : "");
    usage += p.required ? " " + name : " [" + name + "]";
  }
  if (!verb.options.empty()) usage += " [OPTIONS]";
  std::string out = fmt::format(".SS {}\n{}\n.PP\n{}\n", roff(verb.name), usage, roff(verb.summary));
  for (const Positional& p : verb.positionals) out += fmt::format(".TP\n\\fI{}\\fR\n{}\n", roff(p.name), roff(p.help));
  for (const Option& o : verb.options) {
    std::string help = o.help;
    if (o.repeatable) help += "; may be repeated";
    if (!o.fallback.empty()) help += fmt::format(" (default: {})", o.fallback);
    out += fmt::format(".TP\n{}\n{}\n", option_names(o), roff(help));
  }
  if (!verb.notes.empty()) out += fmt::format(".PP\n{}\n", roff(verb.notes));
  for (const std::string& example : verb.examples) out += fmt::format(".PP\n.nf\n    {}\n.fi\n", roff(example));
  return out;
}

int man(const Arguments&, Console& console) {
  console.out
      << fmt::format(".TH REHEARSE 1 \"\" \"rehearse {}\" \"User Commands\"\n", rehearse_version())
      << ".SH NAME\nrehearse \\- play a training step of a model on a cluster of GPUs before anybody pays for it\n"
         ".SH SYNOPSIS\n\\fBrehearse\\fR \\fIVERB\\fR [\\fIARGUMENTS\\fR]\n"
         ".SH DESCRIPTION\nA scenario names a model, a cluster and a parallel strategy. Rehearse says how long a "
         "training step takes, whether it fits, why, and which "
         "strategy would be better; the same plan runs for real.\n.SH VERBS\n";
  for (const Verb& verb : verbs()) console.out << verb_text(verb);
  console.out << ".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nran and failed its check, or the result could not be "
                 "written\n.TP\n2\nbad usage or scenario\n.TP\n3\ndoes not fit\n.TP\n4\nback end "
                 "unavailable\n.TP\n70\na defect of the program\n.TP\n130\ninterrupted\n"
                 ".SH ENVIRONMENT\n.TP\n\\fBREHEARSE_DATA\\fR\nfolder that holds \\fItopologies\\fR and "
                 "\\fIscenarios\\fR\n.TP\n\\fBNO_COLOR\\fR\nno colours\n.TP\n\\fBCOLUMNS\\fR\nwidth of tables\n";
  return 0;
}

}  // namespace

Verb man_verb() {
  return {"man",
          "The manual page, for man(1).",
          {"rehearse man > rehearse.1", "rehearse man | man -l -"},
          {},
          {},
          "'cmake --install' installs it.",
          man};
}

}  // namespace rehearse::cli
