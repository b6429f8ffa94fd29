#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/import/traces/job_trace.hpp"

namespace rehearse {

namespace {

/// Calls of one rank in one group, in order of time.
struct Series {
  int rank_index;
  std::vector<std::int32_t> events;
};
using Pairs = std::vector<std::pair<std::int32_t, std::int32_t>>;  // Events of the first rank and of the other.

class Aligner {
 public:
  explicit Aligner(std::vector<RankTrace> ranks) { job_.ranks = std::move(ranks); }

  JobTrace run() {
    check();
    collect();
    for (const auto& [key, series] : groups_)
      for (std::size_t i = 1; i < series.size(); ++i) pair_up(series[0], series[i]);
    set_clocks();
    gather_matches();
    describe();
    return std::move(job_);
  }

 private:
  struct Link {
    int from, to;
    Pairs pairs;
  };

  void check() {
    std::sort(job_.ranks.begin(), job_.ranks.end(),
              [](const RankTrace& a, const RankTrace& b) { return a.rank < b.rank; });
    std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < job_.ranks.size(); ++i) {
      const RankTrace& r = job_.ranks[i];
      if (i > 0 && job_.ranks[i - 1].rank == r.rank)
        throw Error(ErrorKind::usage, fmt::format("rank {} again, after {}", r.rank, job_.ranks[i - 1].file), r.file,
                    "give each rank of the job once");
      if (i > 0 && r.world_size != job_.ranks[0].world_size && r.world_size > 0 && job_.ranks[0].world_size > 0)
        throw Error(ErrorKind::usage,
                    fmt::format("a job of {} ranks, {} is of one of {}", r.world_size, job_.ranks[0].file,
                                job_.ranks[0].world_size),
                    r.file, "import the ranks of one job");
      earliest = std::min(earliest, r.base_us);
    }
    for (const RankTrace& r : job_.ranks) {
      job_.clock.push_back(Seconds{static_cast<double>(r.base_us - earliest) * 1e-6});
      job_.match_of.emplace_back(r.events.size(), -1);
    }
  }

  void collect() {
    for (std::size_t i = 0; i < job_.ranks.size(); ++i) {
      const RankTrace& r = job_.ranks[i];
      std::map<std::string, Series> mine;
      for (std::size_t e = 0; e < r.events.size(); ++e) {
        if (r.events[e].call < 0) continue;
        const CommunicationCall& c = nth(r.calls, r.events[e].call);
        if (c.op == "send" || c.op == "receive") continue;  // Ends of messages are no collective.
        Series& s =
            mine.try_emplace(c.members.empty() ? "name " + c.group : fmt::format("{}", fmt::join(c.members, " ")),
                             Series{static_cast<int>(i), {}})
                .first->second;
        s.events.push_back(static_cast<std::int32_t>(e));
      }
      for (auto& [key, series] : mine) groups_[key].push_back(std::move(series));
    }
  }

  [[nodiscard]] const DeviceEvent& event(int rank, std::int32_t e) const {
    return nth(nth(job_.ranks, rank).events, e);
  }
  [[nodiscard]] const CommunicationCall& call(int rank, std::int32_t e) const {
    return nth(nth(job_.ranks, rank).calls, event(rank, e).call);
  }
  [[nodiscard]] bool alike(const Series& a, std::int32_t x, const Series& b, std::int32_t y) const {
    const CommunicationCall &p = call(a.rank_index, x), &q = call(b.rank_index, y);
    return p.op == q.op && (p.op == "all_to_all" || !p.sized || !q.sized || p.bytes == q.bytes);
  }
  [[nodiscard]] bool overlap(const Series& a, std::int32_t x, const Series& b, std::int32_t y) const {
    return entry(a.rank_index, x) < end(b.rank_index, y) && entry(b.rank_index, y) < end(a.rank_index, x);
  }
  [[nodiscard]] Seconds entry(int rank, std::int32_t e) const { return event(rank, e).begin + nth(job_.clock, rank); }
  [[nodiscard]] Seconds end(int rank, std::int32_t e) const { return entry(rank, e) + event(rank, e).duration; }

  std::optional<Pairs> by_sequence(const Series& a, const Series& b) const {
    std::map<std::int64_t, std::int32_t> numbered;
    for (const std::int32_t e : a.events) {
      if (call(a.rank_index, e).sequence < 0) return std::nullopt;
      numbered.emplace(call(a.rank_index, e).sequence, e);
    }
    Pairs out;
    for (const std::int32_t e : b.events) {
      if (call(b.rank_index, e).sequence < 0) return std::nullopt;
      const auto at = numbered.find(call(b.rank_index, e).sequence);
      if (at != numbered.end() && alike(a, at->second, b, e)) out.emplace_back(at->second, e);
    }
    return out;
  }

  std::optional<Pairs> in_order(const Series& a, const Series& b) const {
    if (a.events.size() != b.events.size()) return std::nullopt;
    Pairs out;
    for (std::size_t i = 0; i < a.events.size(); ++i) {
      if (!alike(a, a.events[i], b, b.events[i])) return std::nullopt;
      out.emplace_back(a.events[i], b.events[i]);
    }
    return out;
  }

  Pairs by_overlap(const Series& a, const Series& b) const {
    Pairs out;
    for (std::size_t i = 0, j = 0; i < a.events.size() && j < b.events.size();) {
      if (overlap(a, a.events[i], b, b.events[j]) && alike(a, a.events[i], b, b.events[j])) {
        out.emplace_back(a.events[i++], b.events[j++]);
        continue;
      }
      (end(a.rank_index, a.events[i]) < end(b.rank_index, b.events[j]) ? i : j) += 1;
    }
    return out;
  }

  void pair_up(const Series& a, const Series& b) {
    Link link{a.rank_index, b.rank_index, {}};
    if (auto pairs = by_sequence(a, b))
      link.pairs = std::move(*pairs), ways_.insert("by their sequence numbers");
    else if (auto same = in_order(a, b))
      link.pairs = std::move(*same), ways_.insert("in order, as the ranks make the same calls");
    else
      link.pairs = by_overlap(a, b),
      ways_.insert("by operation, size and overlap in time, as the ranks' traces do not hold the same calls");
    links_.push_back(std::move(link));
  }

  /// From rank to rank along matches; ranks that share none with the others keep their own clock.
  void set_clocks() {
    std::vector<bool> set(job_.ranks.size(), false);
    std::vector<Seconds> correction(job_.ranks.size());
    set[0] = true;
    for (bool more = true; more;) {
      more = false;
      for (const Link& l : links_) {
        const auto from = static_cast<std::size_t>(l.from), to = static_cast<std::size_t>(l.to);
        if (set[from] == set[to] || l.pairs.empty()) continue;
        std::vector<double> ahead;
        for (const auto& [x, y] : l.pairs) ahead.push_back((end(l.from, x) - end(l.to, y)).value());
        std::nth_element(ahead.begin(), ahead.begin() + static_cast<std::ptrdiff_t>(ahead.size() / 2), ahead.end());
        const Seconds median{ahead[ahead.size() / 2]};
        if (set[from])
          correction[to] = correction[from] + median;
        else
          correction[from] = correction[to] - median;
        set[from] = set[to] = more = true;
      }
    }
    for (std::size_t i = 0; i < correction.size(); ++i) job_.clock[i] += correction[i];
    job_.correction = correction;
    const Seconds zero = job_.clock[0];
    for (Seconds& c : job_.clock) c -= zero;
  }

  void gather_matches() {
    for (const Link& l : links_) {
      for (const auto& [x, y] : l.pairs) {
        std::int32_t& known = nth(nth(job_.match_of, l.from), x);
        if (known < 0) {
          known = static_cast<std::int32_t>(job_.matched.size());
          job_.matched.push_back({{{l.from, x}}, entry(l.from, x)});
        }
        MatchedCall& match = nth(job_.matched, known);
        match.members.push_back({l.to, y});
        match.last_entry = max(match.last_entry, entry(l.to, y));
        nth(nth(job_.match_of, l.to), y) = known;
      }
    }
  }

  void describe() {
    if (job_.ranks.size() < 2)
      job_.how_matched = "one rank alone: waiting for others cannot be told from communication";
    else if (job_.matched.empty())
      job_.how_matched = "no call of one rank belongs to one of another";
    else
      job_.how_matched = fmt::format("{} collectives matched {}", job_.matched.size(), fmt::join(ways_, "; "));
  }

  JobTrace job_;
  std::map<std::string, std::vector<Series>> groups_;
  std::vector<Link> links_;
  std::set<std::string> ways_;
};

}  // namespace

Seconds JobTrace::transfer(int rank_index, std::int32_t e) const {
  const auto r = static_cast<std::size_t>(rank_index);
  const DeviceEvent& event = nth(ranks[r].events, e);
  const std::int32_t match = nth(match_of[r], e);
  if (match < 0) return event.duration;
  const Seconds moved = event.end() + clock[r] - nth(matched, match).last_entry;
  return max(Seconds{0}, min(moved, event.duration));
}

Seconds JobTrace::waiting(int rank_index, std::int32_t event) const {
  return nth(nth(ranks, rank_index).events, event).duration - transfer(rank_index, event);
}

JobTrace align(std::vector<RankTrace> ranks) {
  if (ranks.empty()) throw Error(ErrorKind::usage, "no trace is given", "import trace");
  return Aligner(std::move(ranks)).run();
}

namespace {

Span span_of(const JobTrace& job, std::size_t rank, std::size_t index, int stream) {
  const RankTrace& r = job.ranks[rank];
  const DeviceEvent& e = r.events[index];
  Span s;
  s.rank = r.rank;
  s.stream = stream;
  s.name = nth(r.names, e.name);
  s.begin = e.begin + job.clock[rank];
  s.end = s.begin + e.duration;
  s.kind = e.cls == OperationClass::memory ? SpanKind::copy : SpanKind::compute;
  s.category = e.cls == OperationClass::attention                                        ? TimeCategory::attention
               : e.cls == OperationClass::optimizer                                      ? TimeCategory::optimizer
               : e.cls == OperationClass::matmul || e.cls == OperationClass::convolution ? TimeCategory::matmul
               : e.cls == OperationClass::loss || e.cls == OperationClass::embedding     ? TimeCategory::loss
                                                                                         : TimeCategory::memory_bound;
  if (e.call < 0) return s;
  const CommunicationCall& c = nth(r.calls, e.call);
  s.kind = c.op == "send" ? SpanKind::send : c.op == "receive" ? SpanKind::receive : SpanKind::collective;
  s.category = TimeCategory::exposed_dp;
  s.bytes = c.bytes;
  s.group = c.group;
  s.group_size = c.group_size;
  s.collective = c.op;
  return s;
}

}  // namespace

Trace to_trace(const JobTrace& job) {
  std::vector<int> ranks;
  std::map<std::int32_t, int> stream_of;
  for (const RankTrace& r : job.ranks) {
    ranks.push_back(r.rank);
    for (const DeviceEvent& e : r.events) stream_of.emplace(e.stream, 0);
  }
  Trace out(std::move(ranks));
  for (auto& [number, index] : stream_of) {
    index = static_cast<int>(out.streams.size());
    out.streams.push_back(fmt::format("stream {}", number));
  }
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    for (std::size_t i = 0; i < job.ranks[r].events.size(); ++i) {
      Span s = span_of(job, r, i, stream_of.at(job.ranks[r].events[i].stream));
      if (const Seconds waits = job.waiting(static_cast<int>(r), static_cast<std::int32_t>(i)); waits > Seconds{0}) {
        Span w = s;
        w.kind = SpanKind::wait;
        w.end = s.begin = s.begin + waits;
        out.spans.push_back(std::move(w));
      }
      out.spans.push_back(std::move(s));
    }
  }
  return out;
}

}  // namespace rehearse
