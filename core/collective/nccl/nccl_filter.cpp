#include <algorithm>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/registry.hpp"
#include "core/collective/nccl/nccl_tuning.hpp"

namespace rehearse::nccl {
namespace {

constexpr std::array<CollectiveOp, 5> kTunedOps{CollectiveOp::all_reduce, CollectiveOp::all_gather,
                                                CollectiveOp::reduce_scatter, CollectiveOp::broadcast,
                                                CollectiveOp::reduce};

std::string folded(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != '_' && c != ' ') out += c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return out;
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> out;
  for (std::size_t from = 0; from <= text.size();) {
    const auto to = std::min(text.find(by, from), text.size());
    if (to > from) out.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return out;
}

/// Position of `word` among `names`, without regard to case and underscores.
std::size_t position(std::string_view kind, std::string_view word, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (folded(names[i]) == folded(word)) return i;
  throw unknown_name(kind, word, names);
}

template <class Enum, int Count>
std::vector<std::string> names() {
  std::vector<std::string> out;
  for (int i = 0; i < Count; ++i) out.emplace_back(name_of(static_cast<Enum>(i)));
  return out;
}

std::uint8_t mask_of(std::string_view kind, std::string_view list, const std::vector<std::string>& valid) {
  const bool all_but = !list.empty() && list.front() == '^';
  if (all_but) list.remove_prefix(1);
  std::uint8_t mask = 0;
  for (const auto word : split(list, ',')) mask = std::uint8_t(mask | 1u << position(kind, word, valid));
  return all_but ? std::uint8_t(~mask) : mask;
}

/// Calls `set(op, mask)` for each op that `text` speaks of.
template <class Set>
void parse_lists(std::string_view kind, std::string_view text, const std::vector<std::string>& valid, Set set) {
  std::vector<std::string> ops;
  for (const auto op : kTunedOps) ops.emplace_back(rehearse::name_of(op));
  for (const auto part : split(text, ';')) {
    const auto colon = part.find(':');
    const auto mask = mask_of(kind, colon == part.npos ? part : part.substr(colon + 1), valid);
    if (colon != part.npos)
      set(kTunedOps[position("collective", part.substr(0, colon), ops)], mask);
    else
      for (const auto op : kTunedOps) set(op, mask);
  }
}

}  // namespace

Filter Filter::parse(std::string_view algorithms, std::string_view protocols) {
  Filter out;
  parse_lists("collective algorithm", algorithms, names<Algorithm, kAlgorithms>(),
              [&](CollectiveOp op, std::uint8_t mask) { nth(out.algorithms_, op) = mask; });
  parse_lists("collective protocol", protocols, names<Protocol, kProtocols>(), [&](CollectiveOp op, std::uint8_t mask) {
    nth(out.protocols_, op) = mask;
    nth(out.protocol_named_, op) = true;
  });
  return out;
}

bool Filter::allows(CollectiveOp op, Algorithm a, Protocol p) const {
  const auto o = static_cast<std::size_t>(op);
  return (algorithms_[o] >> static_cast<int>(a) & 1) != 0 && (protocols_[o] >> static_cast<int>(p) & 1) != 0;
}

bool Filter::names_protocol(CollectiveOp op, Protocol p) const {
  const auto o = static_cast<std::size_t>(op);
  return protocol_named_[o] && (protocols_[o] >> static_cast<int>(p) & 1) != 0;
}

}  // namespace rehearse::nccl
