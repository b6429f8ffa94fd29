#include "core/lesson/ring_picture.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/collective/ring_steps.hpp"
#include "core/report/formats/format.hpp"

namespace rehearse {

namespace {

constexpr int kLetters = 26;
constexpr int kMostRanks = 16;

}  // namespace

std::string draw_ring(int ranks, const TextStyle& style) {
  if (ranks < 2) return "One GPU has the sum: nothing is sent.\n";
  const int shown = std::min(ranks, kMostRanks);
  const std::size_t label = fmt::format("GPU {}", ranks - 1).size();
  const int room = (static_cast<int>(style.width) - static_cast<int>(label) - 4) / 2;
  const int steps = 2 * (ranks - 1), columns = std::min(steps, std::max(1, room));
  std::vector<std::string> lines;
  for (int r = 0; r < shown; ++r) lines.push_back(fmt::format("{:<{}} ", fmt::format("GPU {}", r), label));
  for (const RingStep& s : ring_all_reduce(ranks)) {
    if (s.step >= columns || s.from >= shown) continue;
    const char letter = s.piece < kLetters ? static_cast<char>((s.adds ? 'a' : 'A') + s.piece) : '*';
    nth(lines, s.from) += fmt::format("{}{}", s.step == ranks - 1 ? "| " : "", letter) + ' ';
  }
  std::string out;
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + (columns < steps ? " ..." : "") + '\n';
  }
  if (shown < ranks) out += fmt::format("... and {} more\n", ranks - shown);
  const std::string legend = fmt::format(
      "A column is a step, in which each GPU sends that piece, one of {}, to the next one, and the last to the first; "
      "small letters: a sum so far, capitals: the sum of all",
      ranks);
  return out + wrap(legend, style.width) + "\n";
}

}  // namespace rehearse
