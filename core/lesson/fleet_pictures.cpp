#include "core/lesson/fleet_pictures.hpp"

#include <map>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/play/words.hpp"
#include "core/report/fleet/fleet_figures.hpp"
#include "core/report/formats/format.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostNodes = 16;
constexpr int kMostCounted = 9;

double figure_of(const LessonAnswer& a, const std::string& name) { return a.figures.at(name); }

/// Queues with jobs, each with the letter that stands for it: its first letter that no other has.
std::map<std::string, char> letters_of(const fleet::Fleet& f) {
  std::map<std::string, char> out;
  std::string used;
  for (const fleet::Queue& q : f.queues) {
    const bool has_jobs =
        std::any_of(f.jobs.begin(), f.jobs.end(), [&](const fleet::Job& j) { return j.queue == q.name; });
    if (!has_jobs) continue;
    std::string candidates;
    for (const char c : q.name + "abcdefghijklmnopqrstuvwxyz")
      if (c >= 'a' && c <= 'z') candidates += c;
    const std::size_t free = candidates.find_first_not_of(used);
    out[q.name] = free == std::string::npos ? '?' : candidates[free];
    used += out[q.name];
  }
  if (f.queues.empty()) out[""] = 'j';
  return out;
}

/// One plan's rows of nodes and waiting jobs, all of one width.
class Rows {
 public:
  Rows(const LessonAnswer& a, int room, double longest)
      : fleet_(a.fleet->fleet), result_(a.fleet->result), letters_(letters_of(fleet_)), room_(room), longest_(longest) {
    for (const fleet::Stay& s : result_.stays)
      for (const fleet::Held& h : s.held) on_node_[h.node].push_back({&s, h.gpus});
  }

  [[nodiscard]] std::string node(int n) const {
    std::string out;
    const auto on = on_node_.find(n);
    for (int c = 0; c < room_; ++c) out += inside(c) ? cell(n, on == on_node_.end() ? kNothing : on->second, c) : ' ';
    return out;
  }

  /// How many jobs of a queue wait: a digit, '+' for ten or more.
  [[nodiscard]] std::string waiting(const std::string& queue) const {
    std::vector<int> counts(static_cast<std::size_t>(room_), 0);
    const std::vector<std::vector<const fleet::Stay*>> stays = stays_of_jobs();
    for (std::size_t j = 0; j < fleet_.jobs.size(); ++j) {
      if (fleet_.jobs[j].queue != queue) continue;
      const fleet::JobResult& r = result_.jobs[j];
      for (int c = 0; c < room_; ++c) {
        const double t = middle(c);
        const bool there = fleet_.jobs[j].arrival.value() <= t && (r.finished.value() < 0 || t < r.finished.value());
        const bool runs = std::any_of(stays[j].begin(), stays[j].end(), [t](const fleet::Stay* s) {
          return s->begin.value() <= t && t < s->end.value();
        });
        if (there && !runs && inside(c)) ++nth(counts, c);
      }
    }
    std::string out;
    for (const int n : counts) out += n == 0 ? ' ' : n > kMostCounted ? '+' : static_cast<char>('0' + n);
    return out;
  }

  [[nodiscard]] const std::map<std::string, char>& letters() const { return letters_; }

 private:
  struct Part {
    const fleet::Stay* stay;
    int gpus;
  };
  static inline const std::vector<Part> kNothing{};

  [[nodiscard]] double middle(int column) const { return result_.begin.value() + (column + 0.5) / room_ * longest_; }
  [[nodiscard]] bool inside(int column) const { return middle(column) < result_.end.value(); }

  /// The letter of the queue that holds most; a capital where no GPU of the node is free.
  [[nodiscard]] char cell(int n, const std::vector<Part>& parts, int column) const {
    std::map<char, int> held;
    int sum = 0;
    for (const Part& p : parts) {
      if (middle(column) < p.stay->begin.value() || middle(column) >= p.stay->end.value()) continue;
      held[letters_.at(nth(fleet_.jobs, p.stay->job).queue)] += p.gpus;
      sum += p.gpus;
    }
    if (held.empty()) return '.';
    const auto most =
        std::max_element(held.begin(), held.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    return sum < nth(fleet_.nodes, n).gpus ? most->first : static_cast<char>(most->first - 'a' + 'A');
  }

  [[nodiscard]] std::vector<std::vector<const fleet::Stay*>> stays_of_jobs() const {
    std::vector<std::vector<const fleet::Stay*>> out(fleet_.jobs.size());
    for (const fleet::Stay& s : result_.stays) nth(out, s.job).push_back(&s);
    return out;
  }

  const fleet::Fleet& fleet_;
  const fleet::FleetResult& result_;
  std::map<std::string, char> letters_;
  std::map<int, std::vector<Part>> on_node_;
  int room_;
  double longest_;
};

double span_of(const LessonAnswer& a) { return (a.fleet->result.end - a.fleet->result.begin).value(); }

std::string draw_plans(const std::vector<LessonAnswer>& answers, const TextStyle& style) {
  double longest = 0;
  std::size_t label = 0;
  for (const LessonAnswer& a : answers) {
    longest = std::max(longest, span_of(a));
    for (const fleet::Node& n : a.fleet->fleet.nodes) label = std::max(label, n.name.size());
    for (const fleet::Queue& q : a.fleet->fleet.queues) label = std::max(label, q.name.size() + 6);
  }
  const int room = std::max(20, style.width - static_cast<int>(label) - 3);
  std::string out, meanings;
  for (const LessonAnswer& a : answers) {
    const fleet::Fleet& f = a.fleet->fleet;
    const Rows rows(a, room, longest);
    out += a.key + "\n";
    const auto row = [&](const std::string& name, const std::string& cells) {
      out += fmt::format("{:<{}} |{}|\n", name, label, cells);
    };
    for (std::size_t n = 0; n < std::min(f.nodes.size(), kMostNodes); ++n)
      row(f.nodes[n].name, rows.node(static_cast<int>(n)));
    if (f.nodes.size() > kMostNodes) out += fmt::format("and {} nodes more\n", f.nodes.size() - kMostNodes);
    for (const auto& [queue, letter] : rows.letters())
      row(queue.empty() ? "waits" : queue + " waits", rows.waiting(queue));
    meanings.clear();
    for (const auto& [queue, letter] : rows.letters())
      meanings += fmt::format("{} {}, ", letter, queue.empty() ? "jobs" : queue);
  }
  return out +
         wrap(fmt::format("1 character = {}; {}a capital: no GPU of the node is free, . the whole node is free; "
                          "digits: jobs that wait",
                          fleet_report::time_text(Seconds{longest / room}), meanings),
              style.width) +
         "\n";
}

}  // namespace

std::string fleet_summary(const FleetAnswer& answer) {
  const fleet::Policy& p = answer.fleet.policy;
  double gpus = 0;
  for (const fleet::Node& n : answer.fleet.nodes) gpus += n.gpus;
  return fmt::format("{} GPUs, {} order, rule {}, quota {}, placement {}", with_commas(gpus), p.order, p.rule, p.quota,
                     p.placement);
}

Table fleet_table(const std::vector<LessonAnswer>& answers) {
  Table table{"",
              {{""},
               {"mean wait", true},
               {"90 %", true},
               {"completion", true},
               {"held %", true},
               {"stopped", true},
               {"ended after", true}},
              {}};
  const auto time = [](const LessonAnswer& a, const std::string& name) {
    return fleet_report::time_text(Seconds{figure_of(a, name)});
  };
  for (const LessonAnswer& a : answers)
    table.rows.push_back({a.key, time(a, "wait.mean"), time(a, "wait.p90"), time(a, "completion"),
                          fmt::format("{:.1f}", 100 * figure_of(a, "held")), with_commas(figure_of(a, "preemptions")),
                          time(a, "played")});
  return table;
}

Bar hours_bar(const LessonAnswer& a) {
  const auto hours = [&a](const char* part) { return figure_of(a, std::string("hours.") + part); };
  const std::array<double, kHoursParts.size()> sizes{hours("useful"), hours("lost"),  hours("restarts"),
                                                     hours("down"),   hours("quota"), hours("fragments"),
                                                     hours("order"),  hours("busy"),  hours("unwanted")};
  return {a.key, in_order(kHoursParts, sizes), with_commas(hours("capacity"))};
}

Picture draw_nodes(const std::string& title, const std::vector<const LessonAnswer*>& answers) {
  std::vector<LessonAnswer> shown;
  for (const LessonAnswer* a : answers) shown.push_back(*a);
  return {title, [shown](const TextStyle& style) { return draw_plans(shown, style); }};
}

}  // namespace rehearse
