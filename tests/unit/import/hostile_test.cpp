// Texts made to hurt: each is refused before it costs memory or time, with the reason.

#include "core/import/topology/xml.hpp"
#include "tests/unit/import/imports.hpp"

namespace rehearse {
namespace {

std::string repeated(const std::string& piece, int times) {
  std::string text;
  text.reserve(piece.size() * static_cast<std::size_t>(times));
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

std::string reason(const std::string& text) { return refused(text, answers("l40s")).what(); }

}  // namespace

TEST_CASE("entities are refused where they would be declared") {
  CHECK(
      reason(R"(<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><system>&b;</system>)")
          .starts_with("a document type declaration"));
  CHECK(reason(R"(<!DOCTYPE system SYSTEM "file:///etc/passwd"><system/>)").starts_with("a document type declaration"));
}

TEST_CASE("deep, wide and long files end at their limit") {
  CHECK(reason("<system>" + repeated("<pci>", 1'000'000)) == "more than 32 elements inside each other");
  CHECK(reason("<system><cpu>" + repeated("<pci/>", 1'000'000)) == "more than 100000 elements");
  std::string attributes = "<system";
  for (int i = 0; i < 100; ++i) attributes += " a" + std::to_string(i) + "=\"\"";
  CHECK(reason(attributes + "/>") == "more than 64 attributes of one element");
  CHECK(reason("<system a=\"" + repeated("x", 100'000) + "\"/>") == "an attribute of more than 4096 bytes");
  CHECK(reason("<" + std::string(kMostTopologyBytes, 'x')).starts_with("the text has 8 MB"));
}

TEST_CASE("numbers and names of an XML file that no machine has") {
  std::string gpus = "<system version=\"1\"><cpu vendor=\"GenuineIntel\">";
  for (int i = 0; i < 1100; ++i)
    gpus +=
        "<pci busid=\"" + std::to_string(i) + "\" class=\"0x030200\"><gpu dev=\"" + std::to_string(i) + "\"/></pci>";
  CHECK(reason(gpus + "</cpu></system>") == "<gpu>: more than 1024 GPUs");
  CHECK(reason("<system version=\"1\"><cpu vendor=\"GenuineIntel\"><pci busid=\"a\" class=\"0x030200\" "
               "link_width=\"99999999999999999999\"><gpu dev=\"0\"/></pci></cpu></system>")
            .starts_with("<pci>: link_width="));
  CHECK(reason("<topology/>").starts_with("hwloc's topology"));
  CHECK(reason("<platform/>").starts_with("a SimGrid platform"));
  CHECK(reason("<svg/>").starts_with("<svg> is neither"));
}

TEST_CASE("text that is no XML says where it stops being some") {
  const Error e = refused("<system>\n<cpu>\n</system>", answers("l40s"));
  CHECK(std::string(e.what()).starts_with("not XML: "));
  CHECK(e.where == "file:3");
  CHECK(reason("<system a=\"1\" a=\"2\"/>").starts_with("not XML: "));
  CHECK(reason("<system>").starts_with("not XML: "));
  CHECK(reason("<system>\xff\xfe</system>").starts_with("not XML: "));
}

TEST_CASE("a switch that names itself as its link is no loop") {
  const std::string text =
      R"(<system version="1"><cpu vendor="GenuineIntel"><pci busid="a" class="0x060400">
        <pcilink target="a"/><pci busid="b" class="0x030200"><gpu dev="0"/></pci></pci></cpu></system>)";
  CHECK(reason(text) == "<pcilink>: a switch linked to itself");
}

TEST_CASE("huge matrices are refused by their header, wide rows by their length") {
  std::string header;
  for (int i = 0; i < 5000; ++i) header += "\tGPU" + std::to_string(i);
  CHECK(reason(header + "\n") == "more than 512 devices in one matrix");
  CHECK(reason("\tGPU0\tGPU1\nGPU0\tX" + repeated("\tSYS", 100'000) + "\nGPU1\tSYS\tX\n") ==
        "the row of GPU0 has more cells than the header has devices");
}

TEST_CASE("an empty file, zero bytes and other kinds of file") {
  CHECK(reason("") == "the text is empty");
  CHECK(reason(" \n\t ") == "the text is empty");
  CHECK(reason(std::string("\0\0\0", 3)) == "not a text: it holds a zero byte");
  CHECK(reason("{\"schema\": 1}").starts_with("no matrix of `nvidia-smi topo -m`"));
}

}  // namespace rehearse
