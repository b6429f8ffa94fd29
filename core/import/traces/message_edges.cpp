#include "core/import/traces/message_edges.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

/// Messages of one stream with one peer, in order.
struct Ends {
  std::vector<std::int32_t> events;
};

class MessageMatcher {
 public:
  explicit MessageMatcher(const JobTrace& job) : job_(job) {
    for (std::size_t r = 0; r < job.ranks.size(); ++r) {
      const RankTrace& rank = job.ranks[r];
      index_of_[rank.rank] = static_cast<int>(r);
      out_.emplace_back(rank.calls.size(), -1);
      for (std::size_t e = 0; e < rank.events.size(); ++e) {
        if (rank.events[e].call < 0) continue;
        const CommunicationCall& c = nth(rank.calls, rank.events[e].call);
        if (c.peer < 0 || !c.sized || (c.op != "send" && c.op != "receive")) continue;
        ends_[{static_cast<int>(r), c.op == "send", c.peer, rank.events[e].stream}].events.push_back(
            static_cast<std::int32_t>(e));
      }
    }
  }

  std::vector<std::vector<int>> run() {
    for (const auto& [key, sends] : ends_) {
      const auto& [rank, sending, peer, stream] = key;
      const auto to = index_of_.find(peer);
      if (!sending || to == index_of_.end()) continue;
      const Ends* best = nullptr;
      std::int32_t best_stream = 0;
      double least = std::numeric_limits<double>::max();
      for (const auto& [other, receives] : ends_) {
        const auto& [its_rank, its_sending, its_peer, its_stream] = other;
        if (its_rank != to->second || its_sending || its_peer != nth(job_.ranks, rank).rank) continue;
        const double apart = distance(rank, sends, its_rank, receives);
        if (apart < least) least = apart, best = &receives, best_stream = its_stream;
      }
      if (best == nullptr) continue;
      const int edge = edges_.try_emplace({stream, best_stream}, static_cast<int>(edges_.size())).first->second;
      number(rank, sends, edge);
      number(to->second, *best, edge);
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] const CommunicationCall& call(int rank, std::int32_t event) const {
    const RankTrace& r = nth(job_.ranks, rank);
    return nth(r.calls, nth(r.events, event).call);
  }

  /// How far the ends lie apart, in seconds, over all messages; infinite where these are not the same ones.
  [[nodiscard]] double distance(int from, const Ends& sends, int to, const Ends& receives) const {
    if (sends.events.size() != receives.events.size()) return std::numeric_limits<double>::max();
    double out = 0;
    for (std::size_t k = 0; k < sends.events.size(); ++k) {
      const std::int32_t s = sends.events[k], r = receives.events[k];
      const DeviceEvent &sent = nth(nth(job_.ranks, from).events, s), &taken = nth(nth(job_.ranks, to).events, r);
      const Seconds clock = nth(job_.clock, to) - nth(job_.clock, from);
      if (call(from, s).bytes != call(to, r).bytes || taken.end() + clock < sent.begin)
        return std::numeric_limits<double>::max();
      out += std::abs((taken.end() + clock - sent.end()).value());
    }
    return out;
  }

  void number(int rank, const Ends& ends, int edge) {
    for (const std::int32_t e : ends.events)
      nth(out_, rank)[static_cast<std::size_t>(nth(nth(job_.ranks, rank).events, e).call)] = edge;
  }

  const JobTrace& job_;
  std::map<int, int> index_of_;
  std::map<std::tuple<int, bool, int, std::int32_t>, Ends> ends_;  ///< Rank's index, sends, peer, stream.
  std::map<std::pair<std::int32_t, std::int32_t>, int> edges_;     ///< Streams of sender and receiver.
  std::vector<std::vector<int>> out_;
};

}  // namespace

std::vector<std::vector<int>> message_edges(const JobTrace& job) { return MessageMatcher(job).run(); }

}  // namespace rehearse
