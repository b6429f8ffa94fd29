#include "core/report/results/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/base/normal.hpp"
#include "core/config/json_file.hpp"
#include "core/config/object_reader.hpp"
#include "core/play/words.hpp"
#include "core/report/results/range_words.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;
using Steps = std::vector<ComparedStep>;

const ComparedStep* first_that_fits(const Steps& steps) {
  const auto at = std::find_if(steps.begin(), steps.end(), [](const ComparedStep& s) { return s.fits; });
  return at == steps.end() ? nullptr : &*at;
}

Facts legend(const Steps& steps) {
  Facts facts{"Compared", {}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const PlanSummary& p = steps[i].plan;
    const std::string what =
        p.model.empty() ? ""
                        : fmt::format(": {} on {} GPUs, {}: {}", p.model, with_commas(p.gpus), p.cluster, p.strategy);
    facts.rows.emplace_back(letter_of(i), steps[i].name + what);
  }
  return facts;
}

std::vector<Column> columns(const Steps& steps, const std::string& first) {
  std::vector<Column> out{{first, false}};
  for (std::size_t i = 0; i < steps.size(); ++i) out.push_back({letter_of(i), true});
  return out;
}

template <class Cell>
std::vector<std::string> row(const std::string& title, const Steps& steps, Cell cell) {
  std::vector<std::string> out{title};
  for (const ComparedStep& s : steps) out.push_back(s.fits ? cell(s) : "-");
  return out;
}

std::string likely(const ComparedStep& s) {
  if (s.range.rows == 0) return "-";
  return fmt::format("{:.3g}-{:.3g}", (s.modelled * s.range.p10).value(), (s.modelled * s.range.p90).value());
}

Table figures(const Steps& steps) {
  Table table{"", columns(steps, ""), {}};
  const ComparedStep* base = first_that_fits(steps);
  const bool tokens =
      std::any_of(steps.begin(), steps.end(), [](const ComparedStep& s) { return s.metrics.tokens_per_s > 0; });
  table.rows.push_back(row("step time", steps, [](const ComparedStep& s) { return to_string(s.metrics.step_time); }));
  if (std::any_of(steps.begin(), steps.end(), [](const ComparedStep& s) { return s.range.rows > 0; }))
    table.rows.push_back(row("likely s", steps, likely));
  if (base != nullptr)
    table.rows.push_back(row(fmt::format("times {}", letter_of(static_cast<std::size_t>(base - steps.data()))), steps,
                             [base](const ComparedStep& s) {
                               return fmt::format("{:.3f}", s.metrics.step_time / base->metrics.step_time);
                             }));
  const bool same = std::all_of(steps.begin(), steps.end(),
                                [&](const ComparedStep& s) { return s.plan.samples == steps.front().plan.samples; });
  table.rows.push_back(row(same ? steps.front().plan.samples + "/s" : "samples/s", steps, [](const ComparedStep& s) {
    return s.metrics.samples_per_s >= 1e4 ? with_commas(s.metrics.samples_per_s)
                                          : fmt::format("{:.4g}", s.metrics.samples_per_s);
  }));
  if (tokens)
    table.rows.push_back(
        row("tokens/s", steps, [](const ComparedStep& s) { return with_commas(s.metrics.tokens_per_s); }));
  table.rows.push_back(
      row("MFU %", steps, [](const ComparedStep& s) { return fmt::format("{:.1f}", 100 * s.metrics.mfu); }));
  std::vector<std::string> memory{"memory needed, GiB"}, capacity{"memory there, GiB"};
  for (const ComparedStep& s : steps) {
    memory.push_back(gib(s.needed));
    capacity.push_back(s.fits ? gib(s.capacity) : gib(s.capacity) + " OVER");
  }
  table.rows.push_back(std::move(memory));
  table.rows.push_back(std::move(capacity));
  return table;
}

std::string scaled(double seconds, bool milli) { return fmt::format("{:.3f}", milli ? seconds * 1e3 : seconds); }

Table breakdown_table(const Steps& steps) {
  const bool milli =
      std::all_of(steps.begin(), steps.end(), [](const ComparedStep& s) { return s.breakdown.total() < Seconds{1}; });
  Table table{fmt::format("Where the step goes, on each one's slowest rank, {}", milli ? "ms" : "seconds"),
              columns(steps, ""),
              {}};
  for (int c = 0; c < kTimeCategories; ++c) {
    const auto category = static_cast<TimeCategory>(c);
    auto cells = row(std::string(words_of(category)), steps,
                     [=](const ComparedStep& s) { return scaled(s.breakdown[category].value(), milli); });
    if (std::any_of(cells.begin() + 1, cells.end(),
                    [](const std::string& cell) { return cell != "0.000" && cell != "-"; }))
      table.rows.push_back(std::move(cells));
  }
  table.rows.push_back(
      row("step", steps, [=](const ComparedStep& s) { return scaled(s.breakdown.total().value(), milli); }));
  return table;
}

/// The categories that matter, largest first; what they leave is the last.
std::string reasons(const Breakdown& d) {
  std::vector<int> order(kTimeCategories);
  std::iota(order.begin(), order.end(), 0);
  const auto size = [&d](int c) { return std::abs(nth(d.seconds, c).value()); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return size(a) > size(b); });
  double moved = 0;
  for (const int c : order) moved += size(c);
  std::vector<std::string> parts;
  double told = 0, sum = 0;
  for (const int c : order) {
    if (parts.size() == 4 || told > 0.97 * moved || size(c) == 0) break;
    const Seconds s = nth(d.seconds, c);
    parts.push_back(fmt::format("{} {}", signed_time(s), words_of(static_cast<TimeCategory>(c))));
    told += size(c);
    sum += s.value();
  }
  const double rest = d.total().value() - sum;
  if (std::abs(rest) > 1e-3 * moved) parts.push_back(fmt::format("{} all else", signed_time(Seconds{rest})));
  return fmt::format("{}", fmt::join(parts, ", "));
}

double samples_per_step(const ComparedStep& s) { return s.metrics.samples_per_s * s.metrics.step_time.value(); }

/// Between plans of one job on as many GPUs: how likely it is that the one predicted to be slower, per sample, is
/// (PredictionRange::apart); nothing where ranges are not known, or of other jobs.
std::optional<double> odds_of_order(const ComparedStep& a, const ComparedStep& b) {
  if (a.plan.model.empty() || a.plan.model != b.plan.model || a.plan.gpus != b.plan.gpus) return {};
  const double apart = std::max(a.range.apart, b.range.apart);
  if (a.range.rows == 0 || b.range.rows == 0 || apart <= 1) return {};
  const double difference = std::abs(std::log(b.metrics.samples_per_s / a.metrics.samples_per_s));
  return 0.5 * std::erfc(-difference * normal_quantile(0.9) / std::log(apart) / std::numbers::sqrt2);
}

std::string odds_text(const ComparedStep& a, const ComparedStep& b, const std::string& name) {
  const std::optional<double> odds = odds_of_order(a, b);
  if (!odds) return {};
  const bool slower = b.metrics.samples_per_s < a.metrics.samples_per_s;
  return fmt::format(" Predictions err: of 100 such pairs {} should be measured {} in about {:.0f}.", name,
                     slower ? "slower" : "faster", 100 * *odds);
}

/// "B takes 1.32 times as long as A: +12.3 ms, of which +10.1 ms bubble, +2.2 ms all else."
std::string sentence(const Steps& steps, std::size_t base, std::size_t i) {
  const ComparedStep &a = steps[base], &b = steps[i];
  const double ratio = b.metrics.step_time / a.metrics.step_time;
  const Breakdown d = difference(a.breakdown, b.breakdown);
  if (std::abs(ratio - 1) < 5e-4) return fmt::format("{} takes as long as {}.", letter_of(i), letter_of(base));
  std::string text = fmt::format("{} takes {:.3g} times as long as {}: {}, of which {}.", letter_of(i), ratio,
                                 letter_of(base), signed_time(d.total()), reasons(d));
  const double work = samples_per_step(b) / samples_per_step(a);
  if (std::abs(work - 1) > 1e-6)
    text += fmt::format(" Its step is {:.4g} times the work; per sample it takes {:.3g} times as long.", work,
                        ratio / work);
  return text + odds_text(a, b, letter_of(i));
}

ordered_json step_json(const ComparedStep& s) {
  ordered_json out{{"name", s.name},
                   {"fits", s.fits},
                   {"needed_bytes", std::llround(s.needed.value())},
                   {"capacity_bytes", std::llround(s.capacity.value())}};
  if (!s.fits) return out;
  out["step_time_s"] = s.metrics.step_time.value();
  out["samples_per_s"] = s.metrics.samples_per_s;
  out["tokens_per_s"] = s.metrics.tokens_per_s;
  out["mfu"] = s.metrics.mfu;
  if (s.range.rows > 0) add_range_json(s.modelled, s.range, out);
  out["breakdown"] = breakdown_json(s.breakdown);
  return out;
}

std::string json_text(const Steps& steps) {
  ordered_json out{
      {"schema", kComparisonSchema}, {"steps", ordered_json::array()}, {"differences", ordered_json::array()}};
  const ComparedStep* base = first_that_fits(steps);
  for (const ComparedStep& s : steps) {
    out["steps"].push_back(step_json(s));
    if (&s == base || base == nullptr || !s.fits) continue;
    const Breakdown d = difference(base->breakdown, s.breakdown);
    out["differences"].push_back({{"name", s.name},
                                  {"against", base->name},
                                  {"ratio", s.metrics.step_time / base->metrics.step_time},
                                  {"step_time_s", d.total().value()},
                                  {"breakdown", breakdown_json(d)}});
    if (const std::optional<double> odds = odds_of_order(*base, s)) out["differences"].back()["odds"] = *odds;
  }
  return out.dump(2) + "\n";
}

Table records(const Steps& steps) {
  Table table{"",
              {{"name"},
               {"fits"},
               {"needed_bytes"},
               {"capacity_bytes"},
               {"step_time_s"},
               {"samples_per_s"},
               {"tokens_per_s"},
               {"mfu"}},
              {}};
  for (int c = 0; c < kTimeCategories; ++c)
    table.columns.push_back({fmt::format("breakdown.{}", name_of(static_cast<TimeCategory>(c)))});
  for (const ComparedStep& s : steps) {
    std::vector<std::string> cells{s.name, s.fits ? "true" : "false", fmt::format("{:.0f}", s.needed.value()),
                                   fmt::format("{:.0f}", s.capacity.value())};
    const auto number = [&](double v) { cells.push_back(s.fits ? fmt::format("{}", v) : ""); };
    for (const double v : {s.metrics.step_time.value(), s.metrics.samples_per_s, s.metrics.tokens_per_s, s.metrics.mfu})
      number(v);
    for (const Seconds v : s.breakdown.seconds) number(v.value());
    table.rows.push_back(std::move(cells));
  }
  return table;
}

/// `picture` with nothing where the step has ended: after the share `part` of each row.
std::string blank_after_comparison(std::string picture, double part) {
  for (std::size_t line = 0; line < picture.size(); line = picture.find('\n', line) + 1) {
    const std::size_t end = picture.find('\n', line), left = picture.find('|', line), right = picture.rfind('|', end);
    if (left >= end || right <= left) continue;
    const auto shown = static_cast<std::size_t>(std::ceil(part * static_cast<double>(right - left - 1)));
    for (std::size_t at = left + 1 + shown; at < right; ++at) picture[at] = ' ';
  }
  return picture;
}

/// To the scale of the longest, so that a shorter step is a shorter picture; where that would cut its end off, to its
/// own.
std::string draw(const ComparedStep& s, Seconds longest, const TextStyle& style) {
  if (is_cut(*s.trace, s.rows, s.begin, s.begin + longest, style))
    return draw_gantt(*s.trace, s.rows, s.begin, s.begin + s.modelled, style);
  return blank_after_comparison(draw_gantt(*s.trace, s.rows, s.begin, s.begin + longest, style), s.modelled / longest);
}

void add_pictures(const Steps& steps, Document& out) {
  Seconds longest{0};
  for (const ComparedStep& s : steps)
    if (s.trace) longest = std::max(longest, s.modelled);
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].trace && !steps[i].rows.empty())
      out.blocks.push_back(
          Picture{fmt::format("One step of {}{}, one row per stage", letter_of(i), modelled_words(steps[i].range)),
                  [s = steps[i], longest](const TextStyle& style) { return draw(s, longest, style); }});
}

}  // namespace

ComparedStep read_result(const std::string& json, const std::string& origin) {
  const nlohmann::json document = parse_json(json, origin);
  ObjectReader result(document, origin);
  const std::vector<std::string> schema{kResultSchema};
  (void)result.choice("schema", schema);
  ComparedStep out;
  out.name = origin;
  out.fits = result.boolean("fits");
  double worst = -std::numeric_limits<double>::infinity();
  for (ObjectReader& stage : result.objects("memory")) {
    const double needed = stage.number("needed_bytes"), capacity = stage.number("capacity_bytes");
    if (needed - capacity <= worst) continue;
    worst = needed - capacity;
    out.needed = Bytes{needed};
    out.capacity = Bytes{capacity};
  }
  if (!out.fits) return out;
  out.metrics.step_time = out.modelled = Seconds{result.number("step_time_s", {1e-12, 1e12})};
  out.metrics.samples_per_s = result.number("samples_per_s");
  out.metrics.tokens_per_s = result.number("tokens_per_s");
  out.metrics.mfu = result.number("mfu");
  ObjectReader breakdown = result.object("breakdown");
  for (int c = 0; c < kTimeCategories; ++c)
    nth(out.breakdown.seconds, c) =
        Seconds{breakdown.number(std::string(name_of(static_cast<TimeCategory>(c))), {}, 0)};
  return out;
}

Breakdown difference(const Breakdown& a, const Breakdown& b) {
  Breakdown out;
  for (std::size_t c = 0; c < out.seconds.size(); ++c) out.seconds[c] = b.seconds[c] - a.seconds[c];
  return out;
}

std::string letter_of(std::size_t i) {
  return i < 26 ? std::string(1, static_cast<char>('A' + i)) : fmt::format("#{}", i + 1);
}

Document comparison_document(const std::vector<ComparedStep>& steps) {
  Document out;
  out.blocks = {Heading{fmt::format("{} plans side by side", steps.size())}, legend(steps), figures(steps)};
  if (const ComparedStep* base = first_that_fits(steps)) {
    out.blocks.push_back(breakdown_table(steps));
    const auto at = static_cast<std::size_t>(base - steps.data());
    for (std::size_t i = at + 1; i < steps.size(); ++i)
      if (steps[i].fits) out.blocks.push_back(Paragraph{sentence(steps, at, i)});
  }
  add_pictures(steps, out);
  out.records = records(steps);
  out.json = json_text(steps);
  return out;
}

}  // namespace rehearse
