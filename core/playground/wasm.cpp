// The module's one door: text in, text out. Its files are the data folder, at /data.

#include <cstdlib>
#include <memory>
#include <string>

#include <emscripten/emscripten.h>
#include <unistd.h>

#include "core/collective/nccl/nccl_search.hpp"
#include "core/playground/answers.hpp"

namespace {
constexpr const char* kData = "/data";
}

extern "C" {

/// The reply to a request (answers.hpp), in UTF-8. It stays until the next call.
EMSCRIPTEN_KEEPALIVE const char* rehearse_answer(const char* request) {
  static std::string reply;
  static const rehearse::SessionOptions sessions{.searches = std::make_shared<rehearse::nccl::SystemSearches>()};
  reply = rehearse::playground::answer(request, sessions);
  return reply.c_str();
}

}  // extern "C"

int main() {
  setenv("REHEARSE_DATA", kData, 1);
  return chdir(kData);  // Scenarios are named from there: "scenarios/tiny_gpt2.json".
}
