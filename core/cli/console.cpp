#include "core/cli/console.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

namespace rehearse::cli {

namespace {

constexpr int kDefaultWidth = 100, kLeastWidth = 40, kMostWidth = 400;

int width() {
  if (const char* columns = std::getenv("COLUMNS"))
    if (const int n = std::atoi(columns); n > 0) return n;
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return kDefaultWidth;
}

bool set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

}  // namespace

TextStyle terminal_style() {
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal != nullptr && std::string_view(terminal) == "dumb";
  return {std::clamp(width(), kLeastWidth, kMostWidth), isatty(STDOUT_FILENO) && !set("NO_COLOR") && !dumb};
}

}  // namespace rehearse::cli
