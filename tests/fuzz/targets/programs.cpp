// A Program's JSON, which ranks of one run read from a file of another.

#include "core/program/validate/validate.hpp"
#include "core/serialise/serialise.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/unit/program/lowered.hpp"

namespace rehearse::fuzz::programs {

namespace {

void run_one(std::string_view bytes) {
  const Program read = program_from_json(bytes);
  const std::string text = to_json(read);
  require(to_json(program_from_json(text)) == text, "its own text becomes another Program");
  require(program_hash(program_from_json(text)) == program_hash(read), "the same Program has two numbers");
  try {
    validate(read);
  } catch (const std::logic_error&) {  // Says what is wrong with it.
  }
}

std::string text_of(test::Job job) {
  job.microbatches = 1;
  return to_json(job.lower());
}

std::vector<std::string> made() {
  test::Job plain(test::tiny_gpt(1), 8), pair(test::tiny_llama(2), 8);
  pair.strategy.pp = 2;
  return {text_of(plain), text_of(pair)};
}

const bool registered =
    targets().add({"programs",
                   "Programs (rehearse/program/v1)",
                   {},
                   {.run = run_one, .made = made, .longest = 65536, .limits = {0, "64 deep", nullptr}}});

}  // namespace

}  // namespace rehearse::fuzz::programs
