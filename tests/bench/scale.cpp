// Wall time and peak memory of whole answers at 64, 1,024 and 16,384 GPUs, each in a process of its own: file, cluster, lowering,
// memory, prices, play. Printed, never judged: the machine's load is not the product's business. `--unfolded` adds runs with every
// rank by itself, up to 1,024 GPUs.

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/backend/player.hpp"
#include "core/cli/optional_parts.hpp"
#include "core/cli/session.hpp"

using namespace rehearse;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

void measure(const std::string& scenario, const std::string& backend, bool fold) {
  const double start = seconds();
  const cli::Session session = cli::open_session(std::string(REHEARSE_SOURCE_DIR) + "/scenarios/" + scenario + ".json", {});
  const double opened = seconds();
  const Program program = session.lowered();
  const MemoryReport memory = cli::check_memory(session, program);
  const double lowered = seconds();
  const CostModel cost = session.cost_model();
  Trace nothing({});
  RunOptions options;
  options.fold = fold;
  const RunResult run = backends().at(backend).value()->run(program, session.cluster, cost, options, nothing);
  const double played = seconds();
  fmt::print("{:>7} {:>9} {:>9} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.0f} {:>10} {:>9} {:>10.3f}{}\n", session.cluster.device_count(), backend,
             fold ? "folded" : "unfolded", opened - start, lowered - opened, played - lowered, played - start, peak_megabytes(), run.tasks, run.flows,
             run.step_time.value(), memory.fits() ? "" : "  (over memory)");
}

/// In a child, so that the peak is this case's own.
void in_child(const std::string& scenario, const std::string& backend, bool fold) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    measure(scenario, backend, fold);
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) fmt::print("{} on {}: failed with status {}\n", scenario, backend, status);
}

}  // namespace

int main(int argc, char** argv) {
  register_analytic_backend();
  cli::register_simgrid();
  const bool unfolded_too = argc > 1 && std::string(argv[1]) == "--unfolded";
  fmt::print("{:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>9} {:>10}\n", "GPUs", "back end", "ranks", "open s", "lower s", "play s", "all s", "peak MB",
             "tasks", "flows", "step s");
  for (const char* gpus : {"64", "1024", "16384"})
    for (const std::string& backend : backends().names()) {
      in_child(std::string("gpt3_175b_a100_") + gpus, backend, true);
      if (unfolded_too && std::string(gpus) != "16384") in_child(std::string("gpt3_175b_a100_") + gpus, backend, false);
    }
  return 0;
}
