// Wall time, peak memory and event counts of whole answers, each in a process of its own: file, cluster, lowering,
// memory, prices, play. Printed, never judged: the machine's load is not the product's business.
//
//   bench_scale                  what takes seconds
//   bench_scale growth           cost by GPUs, layers and microbatches
//   bench_scale unfolded         every rank by itself, up to 16,384
//   bench_scale largest          102,400 GPUs, and 4,096 of the same job folded and unfolded
//   bench_scale together         16 jobs at once on 1,024

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/api/memory.hpp"
#include "core/api/session/session.hpp"
#include "core/api/together.hpp"
#include "core/play/player/player.hpp"
#include "tests/support/hand_made.hpp"
#include "tests/support/testbed.hpp"

using namespace rehearse;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// CPU time of this process: on a shared machine it says more than the wall.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto value = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return value(usage.ru_utime) + value(usage.ru_stime);
}

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

/// In a child, so that time and peak are this case's own.
void in_child(const std::string& name, const std::function<void()>& work) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    try {
      work();
    } catch (const std::exception& e) {
      fmt::print("{}: {}\n", name, e.what());
    }
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) fmt::print("{}: failed with status {}\n", name, status);
}

void print_head() {
  fmt::print("{:>40} {:>7} {:>9} {:>8} {:>8} {:>8} {:>7} {:>7} {:>10} {:>10} {:>10} {:>11}\n", "case", "GPUs",
             "back end", "wall s", "CPU s", "play s", "MB", "KB/GPU", "operations", "timers", "flows", "step s");
}

void print_row(const std::string& name, int gpus, const std::string& backend, double begun, double playing,
               const RunResult& run) {
  const double now = seconds();
  fmt::print("{:>40} {:>7} {:>9} {:>8.3f} {:>8.3f} {:>8.3f} {:>7.0f} {:>7.1f} {:>10} {:>10} {:>10} {:>11.6f}\n", name,
             gpus, backend, now - begun, cpu_seconds(), now - playing, peak_megabytes(), peak_megabytes() * 1000 / gpus,
             run.tasks, run.timers, run.flows, run.step_time.value());
}

struct Case {
  std::string scenario;
  std::vector<std::string> overrides = {};
  bool fold = true, all_flows = false;
  std::string backend = "simgrid";
};

std::string name_of(const Case& c) {
  std::string name = c.scenario;
  for (const std::string& o : c.overrides)
    name += " " + (o.starts_with("model=") ? std::filesystem::path(o).parent_path().filename().string()
                                           : o.substr(o.find('.') + 1));
  return name + (c.fold ? "" : ", unfolded") + (c.all_flows ? ", all flows" : "");
}

void play_scenario(const Case& c) {
  in_child(name_of(c), [&] {
    const double begun = seconds();
    const Session session = open_session(testing::source_path("scenarios/" + c.scenario + ".json"), c.overrides);
    const Program program = session.lowered();
    (void)memory(session, program);
    const CostModel cost = session.cost_model();
    Trace nothing({});
    RunOptions options;
    options.fold = c.fold;
    options.all_flows = c.all_flows;
    const double playing = seconds();
    const RunResult run = backends().at(c.backend).value()->run(program, session.cluster, cost, options, nothing);
    print_row(name_of(c), session.cluster.device_count(), c.backend, begun, playing, run);
  });
}

/// One collective over `ranks` ranks, eight a node, called `calls` times in a row on every rank.
void play_collective(const std::string& name, CollectiveOp op, int ranks, int group, int calls, double bytes) {
  in_child(name, [&] {
    const double begun = seconds();
    testing::Testbed bed(testing::machines_on(ranks / 8, testing::shipped_network("rail_ndr_3level"), "dgx_h100"));
    testing::HandMade made(Axis::dp_shard, 1, {testing::talks(Axis::ep)});
    Island island;
    island.order = {{Axis::dp_shard, group}, {Axis::dp_replicate, ranks / group}};
    Program& p = made.program;
    p.mesh = Mesh({island}, Join::none);
    p.device_of_rank.resize(static_cast<std::size_t>(ranks));
    std::iota(p.device_of_rank.begin(), p.device_of_rank.end(), 0);
    p.role_of_rank.assign(static_cast<std::size_t>(ranks), 0);
    testing::Piece call = testing::HandMade::all_reduce(made.tensor(static_cast<std::int64_t>(bytes)), 1);
    std::get<CollectiveTask>(call.kind).op = op;
    const int kernel = made.body("kernel", {testing::HandMade::copies(made.tensor(1'000'000'000))}),
              traffic = made.body("traffic", {call});
    for (int i = 0; i < calls; ++i) {
      const EventId computed =
          made.call(0, kernel, i == 0 ? std::vector<Wait>{} : std::vector<Wait>{{2 * i - 1}}, true);
      made.call(0, traffic, {{computed}}, true, 1);
    }
    Trace nothing({});
    const double playing = seconds();
    const RunResult run = backends().at("simgrid").value()->run(p, bed.cluster, bed.cost, {}, nothing);
    print_row(name, ranks, "simgrid", begun, playing, run);
  });
}

/// Sixteen jobs of 64 GPUs that meet on the ways between leaves: each alone, and all at once.
void together() {
  for (const double oversubscription : {1.0, 8.0}) {
    const std::string name = fmt::format("16 jobs together, oversubscription {}", oversubscription);
    in_child(name, [&] {
      const auto file = std::filesystem::temp_directory_path() / "rehearse_bench_network.json";
      std::ofstream(file) << fmt::format(
          R"({{"schema": "rehearse/network/v1", "name": "bench", "fabric": {{"kind": "fat_tree", "parameters":
              {{"levels": 2, "nodes_per_leaf": 8, "oversubscription": {}}}, "source": "b"}},
              "latency": {{"switch": "200ns",
              "nic": "600ns", "source": "b"}}, "ports": {{"rate": "400Gb/s", "source": "b"}},
              "sources": {{"b": {{"text": "For this bench", "evidence": "estimate"}}}}}})",
          oversubscription);
      const Scenario job = load_scenario(testing::source_path("scenarios/llama3_70b_h100_64.json"),
                                         {fmt::format("cluster.network=\"{}\"", file.string())});
      const TogetherReport report = simulate_together(std::vector<TogetherAsked>(16, {"job", job, {}, {}}),
                                                      {.deal = NodeDeal::interleaved, .steps = 1});
      fmt::print("{}: {:.2f} s CPU, {:.0f} MB, {:.3f} times as long as alone\n", name, cpu_seconds(), peak_megabytes(),
                 report.jobs[0].beside[0] / report.jobs[0].alone[0]);
    });
  }
}

void quick() {
  for (const char* gpus : {"64", "1024"})
    for (const char* backend : {"analytic", "simgrid"})
      play_scenario({std::string("gpt3_175b_a100_") + gpus, {}, true, false, backend});
  play_scenario({"gpt3_175b_a100_1024", {}, true, true});
  play_scenario({"gpt3_175b_a100_1024", {}, false});
  play_scenario({"gpt3_175b_a100_16384"});
  play_collective("all-reduce of 1 GB over 1,024 ranks", CollectiveOp::all_reduce, 1024, 1024, 1, 1e9);
  // A step of 32 layers of experts and 4 microbatches: dispatch and combine, forward and backward.
  play_collective("512 all-to-alls over 2,048 ranks", CollectiveOp::all_to_all, 2048, 2048, 512, 64e6);
  play_collective("512 all-to-alls in groups of 64 ranks", CollectiveOp::all_to_all, 2048, 64, 512, 64e6);
}

/// GPT-3 175B's layers, more or fewer of them.
void write_gpt3(const std::filesystem::path& folder, int layers) {
  std::stringstream text;
  text << std::ifstream(testing::source_path("scenarios/models/gpt3_175b/config.json")).rdbuf();
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << std::regex_replace(text.str(), std::regex("\"n_layer\": *[0-9]+"),
                                                              fmt::format("\"n_layer\": {}", layers));
}

void growth() {
  const std::string job = "gpt3_175b_a100_1024";
  for (const int dp : {4, 8, 16, 32, 64})
    play_scenario({job,
                   {fmt::format("cluster.nodes={}", dp * 8), fmt::format("strategy.dp={}", dp),
                    fmt::format("training.global_batch={}", dp * 96)}});
  for (const int layers : {48, 96, 192, 384}) {
    const auto folder = std::filesystem::temp_directory_path() / fmt::format("rehearse_bench_{}_layers", layers);
    write_gpt3(folder, layers);
    for (const bool all_flows : {false, true})
      play_scenario({job, {"model=" + (folder / "config.json").string()}, true, all_flows});
    std::filesystem::remove_all(folder);
  }
  for (const int microbatches : {24, 48, 96, 192, 384})
    play_scenario({job, {fmt::format("training.global_batch={}", microbatches * 16)}});
}

void unfolded() {
  play_scenario({"gpt3_175b_a100_1024", {}, false});
  play_scenario({"gpt3_175b_a100_1024", {}, false, true});
  play_scenario({"gpt3_175b_a100_16384", {}, false});
}

void largest() {
  play_scenario({"megatron_1t_h100_102400"});
  const std::vector<std::string> smaller{"cluster.nodes=512", "strategy.dp=16", "training.global_batch=512"};
  play_scenario({"megatron_1t_h100_102400", smaller});
  play_scenario({"megatron_1t_h100_102400", smaller, false});
}

}  // namespace

int main(int argc, char** argv) {
  const std::string part = argc > 1 ? argv[1] : "quick";
  print_head();
  if (part == "growth")
    growth();
  else if (part == "unfolded")
    unfolded();
  else if (part == "largest")
    largest();
  else if (part == "together")
    together();
  else
    quick();
  return 0;
}
