#include "core/cli/verbs/search_setup.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/portable.hpp"

namespace rehearse::cli {

namespace {

constexpr int kMostJobs = 1024;

std::optional<int> whole(std::string_view text) {
  int out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional<int>(out) : std::nullopt;
}

}  // namespace

std::string fix_of(const std::string& text) {
  try {
    return fix_override(text);
  } catch (Error& e) {
    if (e.where == "fix") e.where = "--fix";
    throw;
  }
}

SearchShard parse_shard(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t slash = text.find('/');
  const auto index = whole(std::string_view(text).substr(0, slash));
  const auto count = slash == std::string::npos ? std::nullopt : whole(std::string_view(text).substr(slash + 1));
  if (!index || !count || *count < 1 || *count > 1'000'000 || *index < 1 || *index > *count)
    throw Error(ErrorKind::usage, fmt::format("'{}' is not I/N with 1 <= I <= N", text), "--shard",
                "example: --shard 2/8; in a Slurm array of 8, --shard $((SLURM_ARRAY_TASK_ID + 1))/8");
  return {*index - 1, *count};
}

int whole_of(const Arguments& arguments, const std::string& option, int least, int fallback) {
  return static_cast<int>(arguments.whole(option, least, fallback, std::numeric_limits<int>::max()));
}

int jobs_of(const Arguments& arguments) {
  return std::min(kMostJobs, whole_of(arguments, "--jobs", 1, usable_threads()));
}

Option jobs_option() {
  return {"-j,--jobs", "N", "threads; the answer is the same for any number", "the cores of this machine"};
}
Option shard_option() { return {"--shard", "I/N", "do part I of N only; 'rehearse merge' joins the parts' JSON"}; }

}  // namespace rehearse::cli
