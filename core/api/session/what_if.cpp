#include "core/api/session/what_if.hpp"

#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
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

std::string slower_link(Session& session, const std::string& change, const std::string& text) {
  const auto [name, factor] = with_factor(change, text);
  const int found = session.cluster.scale_links(name, factor);
  if (found > 0)
    return fmt::format("{} link{} '{}' at {} of {} rate", found, found == 1 ? "" : "s", name, factor,
                       found == 1 ? "its" : "their");
  std::vector<std::string> names;
  constexpr int kMostNames = 20'000;
  for (LinkId l = 0; l < std::min(session.cluster.link_count(), kMostNames); ++l)
    names.push_back(session.cluster.link(l).name);
  const std::string near = did_you_mean(name, names);
  refuse_change(change, fmt::format("no link '{}'", name),
                near.empty() ? "for example " + names.front() : fmt::format("did you mean '{}'?", near));
}

std::string straggler(Session& session, const std::string& change, const std::string& text) {
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
  session.slowdown[rank] = factor;
  return fmt::format("kernels of rank {} take {} times as long", rank, factor);
}

std::string broken(Session& session, const std::string& change, std::string text) {
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
  return fmt::format("NIC {} of node {} is down, its GPUs send through their neighbour's", nic, node);
}

}  // namespace

void apply_what_if(Session& session, const std::vector<std::string>& changes) {
  std::vector<std::string> said;
  for (const std::string& change : changes) {
    const std::size_t equals = change.find('=');
    const std::string kind = change.substr(0, equals),
                      rest = equals == std::string::npos ? std::string() : change.substr(equals + 1);
    if (rest.empty()) refuse_change(change, fmt::format("'{}' is not KIND=WHAT", change));
    session.changes.links = session.changes.links || kind == "link";
    if (kind == "link")
      said.push_back(slower_link(session, change, rest));
    else if (kind == "straggler")
      said.push_back(straggler(session, change, rest));
    else if (kind == "fail")
      said.push_back(broken(session, change, rest));
    else
      refuse_change(change, fmt::format("'{}' is nothing that can go wrong", kind));
  }
  session.changes.words = fmt::format("{}", fmt::join(said, ", "));
}

}  // namespace rehearse
