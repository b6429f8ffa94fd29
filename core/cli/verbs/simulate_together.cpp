#include "core/cli/verbs/simulate_together.hpp"

#include <optional>

#include <fmt/format.h>

#include "core/api/session/scenario_file.hpp"
#include "core/api/together.hpp"
#include "core/cli/backend_choice.hpp"
#include "core/cli/output.hpp"
#include "core/cli/run/run_watch.hpp"
#include "core/config/json_text.hpp"

namespace rehearse::cli {

namespace {

/// "0s,200ms": one for each job; the last stands for all that follow.
std::vector<Seconds> begins_of(const Arguments& arguments, std::size_t jobs) {
  std::vector<Seconds> out(jobs);
  if (!arguments.has("--begins")) return out;
  std::string text = arguments.text("--begins");
  std::size_t stated = 0;
  for (std::size_t at = 0; at != std::string::npos; ++stated) {
    const std::size_t next = text.find(',', at);
    if (stated == jobs)
      throw Error(ErrorKind::usage, fmt::format("more times than the {} scenarios", jobs), "--begins " + text, "");
    try {
      out[stated] = parse<Seconds>(text.substr(at, next == std::string::npos ? next : next - at));
    } catch (Error& e) {
      e.where = "--begins " + text;
      throw;
    }
    at = next == std::string::npos ? next : next + 1;
  }
  if (stated != jobs)
    throw Error(ErrorKind::usage, fmt::format("{} stated for {} scenarios", stated, jobs), "--begins " + text,
                "one for each, in their order, as in 0s,200ms");
  return out;
}

}  // namespace

std::vector<Option> together_options() {
  return {{"--together", "", "play several scenarios at the same time on one cluster, whose links they share"},
          {"--steps", "N", "steps of each job, with --together", "3"},
          {"--begins", "TIMES", "when each job's first step begins, as in 0s,200ms, with --together", "all at 0"},
          {"--interleave", "", "with --together, deal nodes in turn, not one job after another"},
          {"--cluster", "CLUSTER", "the cluster that they share, with --together: 'rehearse list clusters', or a file",
           "what all name, with nodes for all"}};
}

void check_together(const Arguments& arguments) {
  const bool together = arguments.has("--together");
  if (!together && arguments.all("SCENARIO").size() > 1)
    throw Error(ErrorKind::usage, "several scenarios", "simulate",
                "--together plays them on one cluster; 'rehearse compare' sets them side by side");
  for (const Option& o : together_options())
    if (!together && arguments.has(o.name))
      throw Error(ErrorKind::usage, "it means something with --together alone", o.name, "add --together");
  for (const char* const alone :
       {"--html", "--observed", "--trace", "--trace-ranks", "--what-if", "--no-fold", "--all-flows", "--dry-run"})
    if (together && arguments.has(alone))
      throw Error(ErrorKind::usage, "it is for one scenario", alone, "leave it out, or --together");
}

int simulate_together(const Arguments& arguments, Console& console) {
  RunWatch watch(console);
  const std::vector<std::string> names = arguments.all("SCENARIO");
  const std::vector<Seconds> begins = begins_of(arguments, names.size());
  std::vector<TogetherAsked> jobs;
  for (std::size_t i = 0; i < names.size(); ++i) {
    jobs.push_back({origin_of(names[i]), load_scenario_file(names[i], arguments.all("--set")), begins[i], {}});
    print_warnings(jobs.back().scenario, console);
  }
  TogetherOptions options;
  options.backend = chosen_backend(arguments, console);
  options.cluster = arguments.text("--cluster");
  options.deal = arguments.has("--interleave") ? NodeDeal::interleaved : NodeDeal::one_after_another;
  options.steps = static_cast<int>(arguments.whole("--steps", 1, options.steps, 10'000));
  options.despite_memory = arguments.has("--despite-memory");
  options.progress = [&](const RunProgress& now) { watch.progress(now); };
  const TogetherReport report = rehearse::simulate_together(jobs, options);
  watch.clear();
  print(together_document(report), arguments, console);
  return 0;
}

}  // namespace rehearse::cli
