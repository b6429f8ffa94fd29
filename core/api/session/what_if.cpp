#include "core/api/session/what_if.hpp"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/portable.hpp"
#include "core/base/registry.hpp"

namespace rehearse {

namespace {

constexpr double kMostFactor = 1e6;
constexpr const char* kChangeForms = "link=NAME:0.5, straggler=RANK:1.2, fail=nic:NODE/NIC";

[[noreturn]] void refuse_change(const std::string& change, const std::string& what,
                                const std::string& hint = kChangeForms) {
  throw Error(ErrorKind::usage, what, change, hint);
}

template <class Number>
Number number_in(const std::string& change, std::string_view text) {
  Number out{};
  const auto [end, failed] = number_from_chars(text.data(), text.data() + text.size(), out);
  if (failed != std::errc{} || end != text.data() + text.size())
    refuse_change(change, fmt::format("'{}' is no number", text));
  return out;
}

/// What stands before the last colon, and the factor after it.
std::pair<std::string, double> with_factor(const std::string& change, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) refuse_change(change, fmt::format("no factor after '{}'", text));
  const auto factor = number_in<double>(change, std::string_view(text).substr(colon + 1));
  if (!(factor > 0) || !std::isfinite(factor) || factor > kMostFactor)
    refuse_change(change, fmt::format("the factor {:g} is not above 0 and up to {:g}", factor, kMostFactor));
  return {text.substr(0, colon), factor};
}

/// What has been changed so far, in words; by what it was changed in, so that a change taken back leaves nothing.
struct Said {
  std::string of;
  std::string words;
  double factor = 1;
  bool of_links = false;
};
using Changes = std::vector<Said>;

double product_of(const Changes& changes, const std::string& of) {
  double product = 1;
  for (const Said& s : changes)
    if (s.of == of) product *= s.factor;
  return product;
}

void forget(Changes& changes, const std::string& of) {
  std::erase_if(changes, [&](const Said& s) { return s.of == of; });
}

/// Factors of one name are multiplied.
void slower_link(Session& session, const std::string& change, const std::string& text, Changes& changes) {
  const auto [name, factor] = with_factor(change, text);
  const int found = session.cluster.scale_links(name, factor);
  if (found > 0) {
    const std::string of = "link " + name;
    if (factor != 1)
      changes.push_back({of,
                         fmt::format("{} link{} '{}' at {} of {} rate", found, found == 1 ? "" : "s", name, factor,
                                     found == 1 ? "its" : "their"),
                         factor, true});
    if (product_of(changes, of) == 1) forget(changes, of);
    return;
  }
  std::vector<std::string> names;
  constexpr int kMostNames = 20'000;
  for (LinkId l = 0; l < std::min(session.cluster.link_count(), kMostNames); ++l)
    names.push_back(session.cluster.link(l).name);
  const std::string near = did_you_mean(name, names);
  refuse_change(change, fmt::format("no link '{}'", name),
                near.empty() ? "for example " + names.front() : fmt::format("did you mean '{}'?", near));
}

/// The last factor of a rank counts.
void straggler(Session& session, const std::string& change, const std::string& text, Changes& changes) {
  const auto [rank_text, factor] = with_factor(change, text);
  if (factor < 1)
    refuse_change(
        change, fmt::format("the factor {:g} is below 1", factor),
        fmt::format("a straggler's kernels take longer, 1 to {:g} times; a faster GPU is another machine or cluster",
                    kMostFactor));
  const int rank = number_in<int>(change, rank_text),
            ranks = session.devices.empty() ? session.cluster.device_count() : static_cast<int>(session.devices.size());
  if (rank < 0 || rank >= ranks)
    refuse_change(change, fmt::format("no rank {}", rank), fmt::format("ranks are 0 to {}", ranks - 1));
  const std::string of = fmt::format("rank {}", rank);
  forget(changes, of);
  session.slowdown.erase(rank);
  if (factor == 1) return;
  session.slowdown[rank] = factor;
  changes.push_back({of, fmt::format("kernels of rank {} take {} times as long", rank, factor), factor});
}

void broken(Session& session, const std::string& change, std::string text, Changes& changes) {
  if (!text.starts_with("nic:"))
    refuse_change(change, fmt::format("'{}' cannot fail", text),
                  "fail=nic:NODE/NIC; a link is slowed down: link=NAME:0.1");
  text = text.substr(4);
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos)
    refuse_change(change, fmt::format("no NIC after '{}'", text), "fail=nic:NODE/NIC, such as fail=nic:node0/NIC3");
  const auto index = [&](std::string_view word, std::string_view prefix) {
    return number_in<int>(change, word.starts_with(prefix) ? word.substr(prefix.size()) : word);
  };
  const int node = index(std::string_view(text).substr(0, slash), "node"),
            nic = index(std::string_view(text).substr(slash + 1), "NIC");
  try {
    session.cluster.fail_nic(node, nic);
  } catch (Error& e) {
    e.where = change;
    throw;
  }
  const std::string of = fmt::format("NIC {} of node {}", nic, node);
  forget(changes, of);
  changes.push_back({of, of + " is down, its GPUs send through their neighbour's", 0});
}

}  // namespace

void apply_what_if(Session& session, const std::vector<std::string>& changes) {
  Changes said;
  for (const std::string& change : changes) {
    const std::size_t equals = change.find('=');
    const std::string kind = change.substr(0, equals),
                      rest = equals == std::string::npos ? std::string() : change.substr(equals + 1);
    if (rest.empty()) refuse_change(change, fmt::format("'{}' is not KIND=WHAT", change));
    if (kind == "link")
      slower_link(session, change, rest, said);
    else if (kind == "straggler")
      straggler(session, change, rest, said);
    else if (kind == "fail")
      broken(session, change, rest, said);
    else
      refuse_change(change, fmt::format("'{}' is nothing that can go wrong", kind));
  }
  std::vector<std::string> words;
  for (const Said& s : said) {
    words.push_back(s.words);
    session.changes.links = session.changes.links || s.of_links;
  }
  session.changes.words = fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace rehearse
