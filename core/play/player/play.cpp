#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/play/audit.hpp"
#include "core/play/clocks/clock_share.hpp"
#include "core/play/player/actors.hpp"
#include "core/play/player/one_player.hpp"
#include "core/play/player/player.hpp"

namespace rehearse {

namespace {

/// Whether lane j of every rank's group is at the same place in its node for all of them.
bool lanes_in_place(const Program& p, const Cluster& cluster, const LaneForm& form) {
  for (int r = 0; r < p.mesh.ranks(); ++r) {
    const int lane = nth(p.mesh.context(r).coord, Axis::tp);
    if (cluster.local_index(nth(p.device_of_rank, r)) / form.stride % form.lanes != lane) return false;
  }
  return true;
}

/// Whether the lanes of all that meet lie alike, so that the wires of each lane carry what those of the others do.
bool equal_lanes(const Cluster& cluster, std::span<const PlayedProgram> programs) {
  if (cluster.parts().size() > 1) return false;
  std::optional<LaneForm> form;
  for (const PlayedProgram& p : programs) {
    if (!p.meets_others) continue;
    const LaneForm own = lane_form(p.program, cluster, p.cost, p.options);
    if ((form && *form != own) || (own.lanes > 1 && !lanes_in_place(p.program, cluster, own))) return false;
    form = own;
  }
  return true;
}

/// What each may fold beside the others: README.md, "What is folded, and why it may be", 6.
std::vector<RunOptions> options_beside(const Cluster& cluster, std::span<const PlayedProgram> programs) {
  std::vector<RunOptions> out;
  const bool lanes = equal_lanes(cluster, programs);
  for (const PlayedProgram& p : programs) {
    out.push_back(p.options);
    if (!p.meets_others) continue;
    out.back().fold_alike = false;
    out.back().fold = p.options.fold && lanes;
  }
  return out;
}

/// Hands each player what it set and started.
class Players final : public PlayClock::Handler {
 public:
  Players(const Cluster& cluster, std::span<const PlayedProgram> programs, PlayClock& clock)
      : options_(options_beside(cluster, programs)) {
    for (std::size_t i = 0; i < programs.size(); ++i) {
      const PlayedProgram& p = programs[i];
      shares_.push_back(
          std::make_unique<ClockShare>(clock, static_cast<std::uint32_t>(i), p.begin, p.program.device_of_rank));
      players_.push_back(
          make_player(cluster, {p.program, p.cost, options_[i], p.sink, p.begin, p.meets_others}, *shares_.back()));
      clock.set_timer(p.begin, ClockShare::start_of(static_cast<std::uint32_t>(i)));
    }
    keep(clock);
  }

  void on_timer(PlayClock::Token token) override {
    if (ClockShare::is_start(token))
      player(token).begin();
    else
      player(token).on_timer(ClockShare::own(token));
  }
  void on_flow(PlayClock::Token token) override { player(token).on_flow(ClockShare::own(token)); }

  std::vector<RunResult> end(const std::string& name) {
    std::vector<RunResult> out;
    out.reserve(players_.size());
    for (const auto& p : players_) out.push_back(p->end(name));
    return out;
  }

 private:
  [[nodiscard]] OnePlayer& player(PlayClock::Token token) { return *players_[ClockShare::user_of(token)]; }
  /// Where all players know their links, the clock need know of no others.
  void keep(PlayClock& clock) const {
    std::vector<LinkId> all;
    for (const auto& s : shares_) {
      if (!s->kept()) return;
      all.insert(all.end(), s->kept()->begin(), s->kept()->end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    clock.keep_to(all);
  }

  std::vector<RunOptions> options_;  // By player.
  std::vector<std::unique_ptr<ClockShare>> shares_;
  std::vector<std::unique_ptr<OnePlayer>> players_;
};

void require_own_devices(const Cluster& cluster, std::span<const PlayedProgram> programs) {
  std::vector<bool> taken(static_cast<std::size_t>(cluster.device_count()));
  for (const PlayedProgram& p : programs)
    for (const DeviceId d : p.program.device_of_rank) {
      if (taken.at(static_cast<std::size_t>(d))) throw std::logic_error(fmt::format("device {} has two ranks", d));
      taken[static_cast<std::size_t>(d)] = true;
    }
}

/// What all carried together, held to the links' rates until the last of them has ended.
void audit_links(const Cluster& cluster, std::span<const PlayedProgram> programs, std::vector<RunResult>& results) {
  std::vector<double> bytes(static_cast<std::size_t>(cluster.link_count()), 0.0);
  Seconds end;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const double steps = programs[i].options.steps;
    end = max(end, programs[i].begin + results[i].link_time * steps);
    for (std::size_t l = 0; l < results[i].link_bytes.size(); ++l) bytes[l] += results[i].link_bytes[l] * steps;
  }
  RunResult all;
  Audit(cluster).close(bytes, end.value(), 1, all);
  auto& first = results.front().breaches;
  first.insert(first.end(), all.breaches.begin(), all.breaches.end());
}

}  // namespace

std::vector<RunResult> play(const Cluster& cluster, std::span<const PlayedProgram> programs, PlayClock& clock,
                            const std::string& backend_name) {
  require_own_devices(cluster, programs);
  Players players(cluster, programs, clock);
  clock.run(players);
  std::vector<RunResult> out = players.end(backend_name);
  if (out.size() > 1) audit_links(cluster, programs, out);
  return out;
}

RunResult play(const Program& program, const Cluster& cluster, const CostModel& cost, const RunOptions& options,
               TraceSink& sink, PlayClock& clock, const std::string& backend_name) {
  const PlayedProgram alone{program, cost, options, sink};
  return std::move(play(cluster, {&alone, 1}, clock, backend_name).front());
}

}  // namespace rehearse
