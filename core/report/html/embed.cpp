// Build tool: files as functions that return their text. `embed OUTPUT NAME FILE... -- NAME FILE... -- ...`; files of
// one name are joined.

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

namespace {

constexpr std::size_t kPiece = 8000;  // Compilers bound the length of one literal.

[[noreturn]] void fail(const std::string& why) {
  std::cerr << why << "\n";
  std::exit(1);
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("embed: cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// One pass over the bytes: what a literal cannot hold is an octal escape, of three digits so that nothing runs into
/// it.
void write_literal(std::ostream& out, std::string_view text) {
  out << '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out << '\\' << c;
    else if (c == '?' || byte < 32 || byte > 126)
      out << '\\' << static_cast<char>('0' + byte / 64) << static_cast<char>('0' + byte / 8 % 8)
          << static_cast<char>('0' + byte % 8);
    else
      out << c;
  }
  out << '"';
}

void write_function(std::ostream& out, const std::string& name, const std::string& text) {
  out << "std::string_view " << name << "() {\n  static constexpr char kText[] =\n";
  for (std::size_t at = 0; at == 0 || at < text.size(); at += kPiece) {
    out << "      ";
    write_literal(out, std::string_view(text).substr(at, kPiece));
    out << "\n";
  }
  out << "      ;\n  return {kText, sizeof kText - 1};\n}\n\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) fail("embed OUTPUT NAME FILE... [-- NAME FILE...]...");
  std::ofstream out(argv[1], std::ios::binary);
  out << "// Written by embed.\n#include \"core/report/html/embedded.hpp\"\n\nnamespace rehearse::html {\n\n";
  for (int i = 2; i < argc; ++i) {
    const std::string name = argv[i++];
    std::string text;
    for (; i < argc && std::string_view(argv[i]) != "--"; ++i) text += text_of(argv[i]) + "\n";
    write_function(out, name, text);
  }
  out << "}  // namespace rehearse::html\n";
  if (!out.flush()) fail(std::string("embed: cannot write ") + argv[1]);
}
