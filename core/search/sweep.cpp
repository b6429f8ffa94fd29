#include "core/search/sweep.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/config/full_key.hpp"

namespace rehearse {

namespace {

/// Text between commas that stand outside brackets, without the brackets.
std::vector<std::string> split_values(const std::string& text) {
  std::vector<std::string> out{""};
  int depth = 0;
  for (const char c : text) {
    if (c == '[' && depth++ == 0) continue;
    if (c == ']' && --depth == 0) continue;
    if (c == ',' && depth == 0)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

}  // namespace

Vary parse_vary(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error(ErrorKind::usage, fmt::format("'{}' is not KEY=VALUE,VALUE,...", text), "--vary",
                "example: --vary strategy.tp=1,2,4,8");
  Vary out{full_key(text.substr(0, equals)), split_values(text.substr(equals + 1))};
  if (std::any_of(out.values.begin(), out.values.end(), [](const std::string& v) { return v.empty(); }))
    throw Error(ErrorKind::usage, fmt::format("'{}' has an empty value", text), "--vary",
                "example: --vary strategy.tp=1,2,4,8");
  std::set<std::string> seen;
  std::erase_if(out.values, [&](const std::string& v) { return !seen.insert(v).second; });
  return out;
}

std::vector<Vary> parse_vary(const std::vector<std::string>& texts) {
  std::vector<Vary> out;
  for (const std::string& text : texts) {
    Vary next = parse_vary(text);
    for (const Vary& v : out)
      if (v.key == next.key)
        throw Error(ErrorKind::usage, fmt::format("'{}' is given twice", v.key), "--vary",
                    fmt::format("name all its values at once: --vary {}={},{}", v.key, fmt::join(v.values, ","),
                                fmt::join(next.values, ",")));
    out.push_back(std::move(next));
  }
  return out;
}

std::size_t sweep_size(const std::vector<Vary>& vary) {
  std::size_t out = 1;
  for (const Vary& v : vary) {
    if (out > 10'000'000 / v.values.size())
      throw Error(ErrorKind::usage, "more than 10,000,000 points", "--vary",
                  "'rehearse search' looks for the best plan without trying all");
    out *= v.values.size();
  }
  return out;
}

std::vector<std::string> sweep_values(const std::vector<Vary>& vary, std::size_t number) {
  std::vector<std::string> out(vary.size());
  for (std::size_t k = vary.size(); k-- > 0; number /= vary[k].values.size())
    out[k] = vary[k].values[number % vary[k].values.size()];
  return out;
}

void check_shards(const std::vector<std::pair<std::string, SearchShard>>& shards) {
  std::map<int, std::string> seen;
  const int count = shards.front().second.count;
  for (const auto& [file, shard] : shards) {
    if (shard.count != count)
      throw Error(ErrorKind::usage,
                  fmt::format("is part of {}, {} is part of {}", shard.count, shards.front().first, count), file,
                  "merge parts of one and the same run: --shard 1/N to --shard N/N");
    const auto [at, fresh] = seen.emplace(shard.index, file);
    if (!fresh)
      throw Error(ErrorKind::usage, fmt::format("is part {}/{}, and so is {}", shard.index + 1, count, at->second),
                  file, "name each part once");
  }
  std::vector<std::string> missing;
  for (int i = 0; i < count; ++i)
    if (!seen.contains(i)) missing.push_back(fmt::format("{}/{}", i + 1, count));
  if (!missing.empty())
    throw Error(ErrorKind::usage,
                fmt::format("part{} {} missing", missing.size() == 1 ? "" : "s", fmt::join(missing, ", ")), "merge",
                "run it with --shard and merge again");
}

}  // namespace rehearse
