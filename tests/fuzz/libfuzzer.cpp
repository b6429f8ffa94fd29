// libFuzzer's entry point: REHEARSE_FUZZ names the target.

#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "tests/fuzz/target.hpp"

namespace {

const rehearse::fuzz::Target& chosen() {
  const char* name = std::getenv("REHEARSE_FUZZ");
  try {
    return rehearse::fuzz::targets().at(name == nullptr ? "" : name).value;
  } catch (const rehearse::Error& e) {
    std::cerr << "REHEARSE_FUZZ: " << e.what() << '\n';
    std::exit(2);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const rehearse::fuzz::Target& target = chosen();
  rehearse::fuzz::run(target, {reinterpret_cast<const char*>(data), size});
  return 0;
}
