#include "core/report/plan/plan_report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/plan/plan_words.hpp"
#include "core/play/words.hpp"
#include "core/report/plan/plan_json.hpp"

namespace rehearse {

namespace {

constexpr double kSparseCurve = 1.2;  // Sizes that are shown differ by at least this factor.

/// "58.9", "112".
std::string days_text(double d) { return d < 99.95 ? fmt::format("{:.1f}", d) : fmt::format("{:.0f}", d); }
/// Three digits, or all of a larger number.
std::string three_digits(double v) { return v < 999.5 ? fmt::format("{:.3g}", v) : with_commas(std::round(v)); }

/// "$1.1M-$1.5M".
std::string money_range(Dollars low, Dollars high) {
  return fmt::format("{}-{}", to_string(low, 2), to_string(high, 2));
}

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

/// By where the deadline lies in the range of days.
std::string meets(const CandidateAnswer& a) {
  if (!a.point) return "cannot run";
  if (!a.meets_deadline) return "late";
  if (!a.meets_budget) return "too dear";
  return a.meets_deadline_high ? "in time" : "may be late";
}

Table candidates_table(const PlanAnswer& answer) {
  Table t{"",
          {{"", true},
           {"candidate"},
           {"nodes", true},
           {"GPUs", true},
           {"days", true},
           {"80 %", true},
           {"late", true},
           {"cost", true},
           {"at once", true},
           {""}},
          {}};
  int rank = 0;
  for (const CandidateAnswer& a : answer.ranked) {
    std::vector<std::string> row{std::to_string(++rank), a.candidate.name};
    if (const auto& p = a.point) {
      const double d = in_days(p->duration);
      for (std::string cell :
           {fmt::format("{}{}", p->machines, p->spares > 0 ? fmt::format("+{}", p->spares) : ""), with_commas(p->gpus),
            days_text(d), fmt::format("{}-{}", days_text(d * a.range.low), days_text(d * a.range.high)),
            fmt::format("{:.0f} %", 100 * a.odds_late), money(p->cost.parts.total()), money(p->cost.capital)})
        row.push_back(std::move(cell));
    } else {
      row.insert(row.end(), 7, "-");
    }
    row.push_back(meets(a));
    t.rows.push_back(std::move(row));
  }
  return t;
}

/// A table with one row for each candidate that runs.
Table per_candidate(const PlanAnswer& answer, const std::string& title, std::vector<Column> columns,
                    const std::function<std::vector<std::string>(const CandidateAnswer&, const PlanPoint&)>& cells) {
  columns.insert(columns.begin(), {"candidate"});
  Table t{title, std::move(columns), {}};
  for (const CandidateAnswer& a : answer.ranked) {
    if (!a.point) continue;
    std::vector<std::string> row = cells(a, *a.point);
    row.insert(row.begin(), a.candidate.name);
    t.rows.push_back(std::move(row));
  }
  return t;
}

/// A line for each candidate that runs.
Facts line_each(const PlanAnswer& answer, const std::string& title,
                const std::function<std::string(const CandidateAnswer&, const PlanPoint&)>& text) {
  Facts out{title, {}};
  for (const CandidateAnswer& a : answer.ranked)
    if (a.point) out.rows.emplace_back(a.candidate.name, text(a, *a.point));
  return out;
}

/// Whether the step was played, and what the closed form said where it is more than 2 % off.
std::string played_text(const StepChoice& step) {
  if (step.played_by.empty())
    return step.why_not_played.empty() ? " (closed form)" : " (closed form; not played: " + step.why_not_played + ")";
  const double off = step.closed_form / step.step_time;
  return off < 0.98 || off > 1.02
             ? fmt::format(" played on {} (closed form {:.3g} s)", step.played_by, step.closed_form.value())
             : " played on " + step.played_by;
}

/// "83.2 % of memory (13.4 GB left), likely 74 to 95 %".
std::string memory_text(const StepChoice& step, const PeakRange& range) {
  std::string out =
      fmt::format("{} % of memory ({} left{})", percent(step.fullness()),
                  to_string(max(Bytes{0}, step.capacity - step.needed), 3), step.nearly_full() ? ": nearly full" : "");
  if (range.rows == 0) return out;
  const auto [low, high] = range.ends(step.needed, step.allocated);
  return out + fmt::format(", likely {:.0f} to {:.0f} %{}", 100 * (low / step.capacity), 100 * (high / step.capacity),
                           high > step.capacity ? ": it may run out" : "");
}

Facts strategies(const PlanAnswer& answer) {
  return line_each(answer, "Best strategy found", [](const CandidateAnswer& a, const PlanPoint& p) {
    return fmt::format("{}; batch {}, {:.3g} s a step{}, MFU {} %, {}", p.step.label,
                       with_commas(static_cast<double>(p.step.global_batch)), p.step.step_time.value(),
                       played_text(p.step), percent(p.step.mfu), memory_text(p.step, a.peak));
  });
}

Table money_table(const PlanAnswer& answer) {
  return per_candidate(answer, "Cost of the run",
                       {{"purchase", true},
                        {"network", true},
                        {"storage", true},
                        {"site", true},
                        {"staff", true},
                        {"power", true},
                        {"cooling", true},
                        {"rental", true},
                        {"80 % range", true},
                        {"MWh", true}},
                       [](const CandidateAnswer& a, const PlanPoint& p) {
                         const CostParts& c = p.cost.parts;
                         const Dollars total = c.total();
                         return std::vector<std::string>{money(c.purchase),
                                                         money(c.network),
                                                         money(c.storage),
                                                         money(c.site),
                                                         money(c.staff),
                                                         money(c.power),
                                                         money(c.cooling),
                                                         money(c.rental),
                                                         money_range(total * a.range.low, total * a.range.high),
                                                         three_digits(in_mwh(p.cost.energy))};
                       });
}

/// Of what is bought, when it has paid for itself against renting such GPUs.
Facts break_even_facts(const PlanAnswer& answer) {
  Facts out{"Bought against rented, at the same utilisation", {}};
  for (const CandidateAnswer& a : answer.ranked) {
    if (!a.rent || !a.point) continue;
    const std::string rent =
        to_string(*a.rent, 3) + " a GPU hour" + (a.rented_from == a.candidate.name ? "" : " (" + a.rented_from + ")");
    out.rows.emplace_back(a.candidate.name,
                          a.break_even
                              ? fmt::format("has paid for itself after {:.0f} months against {}", *a.break_even, rent)
                              : fmt::format("never pays against {}: running it costs as much", rent));
  }
  return out;
}

/// A tornado as text: the widest swings of the first candidate.
Table swings_table(const CandidateAnswer& a) {
  Table t{fmt::format("What moves the cost of {} most, at its size", a.candidate.name),
          {{"figure"}, {"from", true}, {"to", true}, {"cost", true}, {"cost", true}, {"swing", true}},
          {}};
  for (const Swing& s : a.swings)
    t.rows.push_back({s.what, s.from, s.to, money(s.cost_from), money(s.cost_to), money(s.width())});
  return t;
}

Table failures_table(const PlanAnswer& answer) {
  return per_candidate(answer, "Failures",
                       {{"MTBF h", true},
                        {"a day", true},
                        {"save every", true},
                        {"write s", true},
                        {"late %", true},
                        {"short %", true},
                        {"goodput %", true}},
                       [](const CandidateAnswer&, const PlanPoint& p) {
                         const Goodput& g = p.goodput;
                         return std::vector<std::string>{three_digits(in_hours(g.mtbf)),
                                                         fmt::format("{:.2f}", g.interruptions_per_day),
                                                         to_string(g.interval, 3),
                                                         fmt::format("{:.3g}", g.write.value()),
                                                         percent(1 / g.stragglers - 1),
                                                         percent(1 - g.spares),
                                                         percent(g.total)};
                       });
}

Facts sizes(const PlanAnswer& answer) {
  return line_each(answer, "Other sizes, by closed form: GPUs, days and cost",
                   [](const CandidateAnswer& a, const PlanPoint& chosen) {
                     std::vector<std::string> out;
                     double last = 0;
                     for (const PlanPoint& p : a.curve) {
                       const bool crowded = p.gpus < last * kSparseCurve ||
                                            (p.gpus < chosen.gpus && p.gpus * kSparseCurve > chosen.gpus);
                       if (crowded && p.gpus != chosen.gpus) continue;
                       last = p.gpus;
                       out.push_back(fmt::format("{}: {} d {}", with_commas(p.gpus), days_text(in_days(p.duration)),
                                                 money(p.cost.parts.total())));
                     }
                     return fmt::format("{}", fmt::join(out, "; "));
                   });
}

void add_sources(const PlanAnswer& answer, std::vector<DocumentBlock>& out) {
  const auto amount = [](const CandidateAnswer& a, const std::string& figure) {
    if (figure == "purchase") return money(a.price.purchase.value_or(Dollars{0}));
    if (figure == "network") return money(a.price.network.value_or(Dollars{0}));
    if (figure == "rental") return to_string(a.price.rental.value_or(Dollars{0}), 4) + " per GPU-hour";
    return to_string(a.price.power.value_or(Watts{0}));
  };
  Facts facts{"Prices and what they rest on", {}};
  for (const CandidateAnswer& a : answer.ranked) {
    for (const PriceSource& s : a.price.sources) {
      if ((s.figure == "rental") != a.rented && s.figure != "power") continue;
      facts.rows.emplace_back(a.candidate.name,
                              fmt::format("{} {} ({}{}): {}", s.figure, amount(a, s.figure),
                                          s.date.empty() ? "" : s.date + ", ", name_of(s.evidence), s.text));
    }
  }
  out.push_back(std::move(facts));
  Facts failures{"Failure rates", {}};
  for (const CandidateAnswer& a : answer.ranked)
    failures.rows.emplace_back(a.candidate.name, a.reliability.name.empty() ? "none" : a.reliability.name);
  out.push_back(std::move(failures));
  std::vector<std::string> said;
  for (const CandidateAnswer& a : answer.ranked)
    if (!a.range.source.empty() && std::find(said.begin(), said.end(), a.range.source) == said.end())
      said.push_back(a.range.source);
  for (const CandidateAnswer& a : answer.ranked) {
    const std::string line = "8 of 10 peaks of memory lie in the range given, by " + a.peak.rests_on;
    if (a.peak.rows > 0 && std::find(said.begin(), said.end(), line) == said.end()) said.push_back(line);
  }
  for (const std::string& line : said) out.push_back(Paragraph{capital(line)});
}

std::string method_text(const Plan& plan) {
  const Economics& e = plan.economics;
  return fmt::format(
      "Days = tokens / (tokens per step) x step time / goodput. Goodput = stragglers x checkpoints x spares. A "
      "purchase counts by its share of {:g} years at {:.0f} % use, with {:.0f} % interest a year and less {:.0f} % "
      "that "
      "it is worth then; so do network and storage ({:.0f} % of the machines). Site: {} a kW and month; staff: {} a "
      "machine and year. Machines draw {:.0f} % of their rated power, the "
      "site {:g} times as "
      "much, at {} per kWh. '+N' after nodes (machines): spares. At once: machines and network, before the first step. "
      "Save "
      "every: checkpoints; late %: waiting for the slowest rank; short %: of machines, without enough spares. 'In "
      "time': with the odds asked for, {:g}, the run meets the deadline; 'may be late': the prediction meets it, with "
      "worse odds; 'late': nor does the prediction. Late in the first table: how likely the run ends after it.",
      e.amortisation_years, 100 * e.utilisation, 100 * e.cost_of_capital, 100 * e.residual_share, 100 * e.storage_share,
      to_string(e.colocation, 3), to_string(e.staff, 3), 100 * e.power_share, e.pue, to_string(e.electricity, 3),
      plan.odds);
}

Table records_of(const PlanAnswer& answer) {
  Table t;
  for (const char* title : {"rank",
                            "candidate",
                            "machine",
                            "machines",
                            "spares",
                            "gpus",
                            "strategy",
                            "step_time_s",
                            "mfu",
                            "days",
                            "days_p10",
                            "days_p90",
                            "goodput",
                            "cost_usd",
                            "cost_usd_p10",
                            "cost_usd_p90",
                            "purchase_usd",
                            "network_usd",
                            "power_usd",
                            "cooling_usd",
                            "rental_usd",
                            "capital_usd",
                            "energy_mwh",
                            "storage_usd",
                            "site_usd",
                            "staff_usd",
                            "odds_late",
                            "memory_needed_bytes",
                            "memory_needed_bytes_p10",
                            "memory_needed_bytes_p90",
                            "meets_deadline",
                            "meets_budget",
                            "why_not"})
    t.columns.push_back({title});
  int rank = 0;
  for (const CandidateAnswer& a : answer.ranked) {
    std::vector<std::string> row{std::to_string(++rank), a.candidate.name, a.facts.id};
    if (const auto& p = a.point) {
      const CostParts& c = p->cost.parts;
      const auto number = [](double v) { return fmt::format("{:.6g}", v); };
      for (const int n : {p->machines, p->spares, p->gpus}) row.push_back(std::to_string(n));
      row.push_back(p->step.label);
      const double d = in_days(p->duration), total = c.total().value();
      for (const double v : {p->step.step_time.value(),
                             p->step.mfu,
                             d,
                             d * a.range.low,
                             d * a.range.high,
                             p->goodput.total,
                             total,
                             total * a.range.low,
                             total * a.range.high,
                             c.purchase.value(),
                             c.network.value(),
                             c.power.value(),
                             c.cooling.value(),
                             c.rental.value(),
                             p->cost.capital.value(),
                             in_mwh(p->cost.energy),
                             c.storage.value(),
                             c.site.value(),
                             c.staff.value(),
                             a.odds_late})
        row.push_back(number(v));
      const auto [low, high] = a.peak.ends(p->step.needed, p->step.allocated);
      row.push_back(fmt::format("{:.0f}", p->step.needed.value()));
      for (const Bytes b : {low, high}) row.push_back(a.peak.rows > 0 ? fmt::format("{:.0f}", b.value()) : "");
    } else {
      row.insert(row.end(), 27, "");
    }
    for (const bool b : {a.meets_deadline, a.meets_budget}) row.emplace_back(b ? "true" : "false");
    row.push_back(a.why_not);
    t.rows.push_back(std::move(row));
  }
  return t;
}

}  // namespace

Document plan_document(const PlanAnswer& answer, const std::string& program_version) {
  Document out;
  out.blocks.push_back(Heading{answer.question});
  if (answer.interrupted)
    out.blocks.push_back(Paragraph{"Interrupted: ranked by the sizes that were tried until then."});
  out.blocks.push_back(candidates_table(answer));
  out.blocks.push_back(Paragraph{answer.why});
  Facts misses{"What the others miss", {}};
  for (const CandidateAnswer& a : answer.ranked)
    if (!a.why_not.empty()) misses.rows.emplace_back(a.candidate.name, a.why_not);
  out.blocks.push_back(std::move(misses));
  if (std::any_of(answer.ranked.begin(), answer.ranked.end(),
                  [](const CandidateAnswer& a) { return a.point.has_value(); }))
    for (DocumentBlock b :
         {DocumentBlock(strategies(answer)), DocumentBlock(money_table(answer)),
          DocumentBlock(break_even_facts(answer)), DocumentBlock(failures_table(answer)), DocumentBlock(sizes(answer))})
      out.blocks.push_back(std::move(b));
  std::erase_if(out.blocks, [](const DocumentBlock& b) {
    const auto* facts = std::get_if<Facts>(&b);
    return facts != nullptr && facts->rows.empty();
  });
  const CandidateAnswer& first = answer.ranked.front();
  if (!first.swings.empty()) out.blocks.push_back(swings_table(first));
  Facts lines{"", {}};
  if (!first.play_line.empty()) lines.rows.emplace_back("play it", first.play_line);
  if (!answer.export_line.empty()) lines.rows.emplace_back("export it", answer.export_line);
  if (!lines.rows.empty()) out.blocks.push_back(std::move(lines));
  out.blocks.push_back(Paragraph{method_text(answer.plan)});
  add_sources(answer, out.blocks);
  out.records = records_of(answer);
  out.json = plan_json(answer, program_version);
  return out;
}

}  // namespace rehearse
