#pragma once
// What is fuzzed: every reader of bytes that come from outside, and whole answers. Each target is one entry of this
// registry, in a file of its own under targets/; the driver over the corpus (corpus.cpp), libFuzzer's entry point
// (libfuzzer.cpp) and the script that counts runs (fuzz.py) find them here.
//
//   void read_network_text(std::string_view bytes) { (void)read_network(parse_json(bytes, "x.json"), "x.json", "x"); }
//   const bool registered = targets().add({"networks", "a network file", {}, {.run = read_network_text, ...}});
//
// A run ends well where the reader returns, or throws Error: that is how the product refuses. Any other exception is a
// finding, and so are what sanitizers see, more than 10 s and more than 2 GB.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/registry.hpp"

namespace rehearse::fuzz {

/// Files of the source tree that a target starts from: those below `folder` whose path ends with `ending`.
struct Seeds {
  std::string folder;  ///< "scenarios"; a file is itself.
  std::string ending;  ///< ".json"
};

/// What the reader refuses whatever it says: README.md shows them.
struct Limits {
  std::size_t bytes = 0;                            ///< Of a file; 0: it reads no file by itself.
  std::string more;                                 ///< "64 deep, 1,000,000 nodes"
  void (*file)(const std::string& path) = nullptr;  ///< Reads one as the product does: held to `bytes` in a test.
};

struct Target {
  void (*run)(std::string_view bytes);
  std::vector<Seeds> seeds = {};
  std::vector<std::string> (*made)() = nullptr;  ///< Seeds that a program makes; null: none.
  std::size_t longest = 4096;                    ///< Bytes of an input that is drawn, and of a seed.
  Limits limits = {};
  bool answers = false;  ///< Whole answers, which take thousands of times as long as reading.
};

[[nodiscard]] Registry<Target>& targets();

struct Seed {
  std::string name;  ///< "scenarios-tiny_gpt2.json"
  std::string bytes;
};
/// Every seed of a target: its files, what it makes, and the inputs that once broke it (found/NAME).
[[nodiscard]] std::vector<Seed> seeds_of(const Registry<Target>::Entry& target);

/// Runs one input; what the reader refuses is no finding. Throws whatever else the reader does.
void run(const Target& target, std::string_view bytes);

/// Throws std::logic_error unless `holds`: a fact of the domain that an answer breaks.
void require(bool holds, const std::string& fact);

}  // namespace rehearse::fuzz
