#include "core/import/traces/call_words.hpp"

#include <cctype>
#include <charconv>

namespace rehearse {

namespace {

/// Letters and digits only, lower case.
std::string plain_call_words(std::string_view word) {
  std::string out;
  for (const char c : word)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

struct Word {
  std::string_view part, meaning;
};

}  // namespace

std::string call_name(std::string_view word) {
  // "reduce" is part of the two above it.
  constexpr Word kCalls[] = {{"allreduce", "all_reduce"},
                             {"reducescatter", "reduce_scatter"},
                             {"allgather", "all_gather"},
                             {"alltoall", "all_to_all"},
                             {"sendrecv", "send_recv"},
                             {"broadcast", "broadcast"},
                             {"barrier", "barrier"},
                             {"gather", "gather"},
                             {"scatter", "scatter"},
                             {"reduce", "reduce"},
                             {"recv", "receive"},
                             {"receive", "receive"},
                             {"send", "send"}};
  if (const auto arguments = word.find('('); arguments != std::string_view::npos) word = word.substr(0, arguments);
  const std::string text = plain_call_words(word);
  for (const Word& w : kCalls)
    if (text.find(w.part) != std::string::npos) return std::string(w.meaning);
  return "unknown";
}

std::optional<double> element_bytes(std::string_view word) {
  struct Size {
    std::string_view name;
    double bytes;
  };
  constexpr Size kSizes[] = {{"double", 8},         {"long", 8},         {"longint", 8},       {"int64", 8},
                             {"float", 4},          {"int", 4},          {"int32", 4},         {"half", 2},
                             {"c10half", 2},        {"bfloat16", 2},     {"c10bfloat16", 2},   {"short", 2},
                             {"char", 1},           {"signedchar", 1},   {"unsignedchar", 1},  {"byte", 1},
                             {"bool", 1},           {"float8e4m3fn", 1}, {"float8e5m2", 1},    {"float8e4m3fnuz", 1},
                             {"float8e5m2fnuz", 1}, {"complexfloat", 8}, {"complexdouble", 16}};
  const std::string text = plain_call_words(word);
  for (const Size& s : kSizes)
    if (text == s.name) return s.bytes;
  return std::nullopt;
}

std::vector<int> rank_list(std::string_view text) {
  std::vector<int> out;
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return out;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    if (text.front() == ' ' || text.front() == ',') {
      text.remove_prefix(1);
      continue;
    }
    int rank = -1;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (failed != std::errc{} || rank < 0) return {};
    out.push_back(rank);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return out;
}

}  // namespace rehearse
