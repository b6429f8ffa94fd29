// calibrate: measures this machine, kernels and collectives only, and writes the profile that simulate, estimate,
// memory and validate take.

#include <charconv>

#include <fmt/format.h>

#include "core/cli/output.hpp"
#include "core/cli/run/run_rank.hpp"
#include "core/cli/run/run_watch.hpp"
#include "core/cli/verbs.hpp"
#include "core/config/json_file.hpp"
#include "core/report/formats/format.hpp"
#include "core/report/formats/text_output.hpp"
#include "core/report/results/validation_report.hpp"
#include "gpu_backend/calibrate/calibrate.hpp"
#include "gpu_backend/calibrate/machine.hpp"
#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/cores.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/host_memory.hpp"
#include "gpu_backend/cuda/device_probe.hpp"

namespace rehearse::cli {

namespace {

double budget_of(const Arguments& arguments) {
  const std::string text = arguments.text("--budget", "60s");
  const Seconds budget = [&] {
    try {
      return parse<Seconds>(text);
    } catch (Error& e) {
      e.where = "--budget";
      throw;
    }
  }();
  if (!(budget.value() > 0) || budget.value() > 86400)
    throw Error(ErrorKind::usage, fmt::format("a budget of {}", text), "--budget", "example: --budget 60s");
  return budget.value();
}

std::vector<Numerics> numerics_asked(const Arguments& arguments) {
  const std::string name = arguments.text("--numerics", "");
  if (on_cuda(arguments)) return {numerics_of(arguments)};
  if (name == "fp32,fp64" || name == "all") return {Numerics::fp32, Numerics::fp64};
  return {numerics_of(arguments)};
}

std::string file_of(const Arguments& arguments) {
  if (!arguments.has("--output"))
    throw Error(ErrorKind::usage, "no file for the profile", "--output",
                "example: rehearse calibrate --device cpu --ranks 2 -o this_machine.json");
  return arguments.text("--output");
}

void describe_machine(DeviceProfile& profile, const Arguments& arguments, int cores) {
  const HostFacts machine = host_facts();
  profile.date = arguments.text("--date");
  if (on_cuda(arguments)) {
    const CudaDevice gpu = probe_cuda_devices().devices.at(0);
    profile.kind = "cuda";
    profile.name = gpu.name;
    profile.math_library = "cuBLASLt";
    profile.cores = gpu.multiprocessors;
    profile.memory = gpu.memory * static_cast<double>(profile.most_ranks());  // Of all ranks together.
    profile.sources = {{"calibrate",
                        fmt::format("rehearse calibrate on {} with {}{}{}", gpu.name, profile.math_library,
                                    profile.date.empty() ? "" : ", ", profile.date),
                        Evidence::measured_here}};
    return;
  }
  profile.kind = "cpu";
  profile.name = machine.processor;
  profile.math_library = blas_name();
  profile.cores = cores;
  profile.memory = machine.memory;
  profile.sources = {{"calibrate",
                      fmt::format("rehearse calibrate on {} ({} cores) with {}{}{}", machine.processor, cores,
                                  profile.math_library, profile.date.empty() ? "" : ", ", profile.date),
                      Evidence::measured_here}};
}

Document summary(const DeviceProfile& p, const std::string& file) {
  Document out;
  Table table{"Settings",
              {{"ranks", true},
               {"type"},
               {"threads", true},
               {"best product", true},
               {"copy", true},
               {"dispatch", true},
               {"taken by communication", true},
               {"taken by others", true},
               {"median spread", true}},
              {}};
  for (const auto& s : p.settings) {
    FlopsPerSecond best;
    std::vector<double> spreads;
    for (const auto& [name, op] : s.operators)
      for (const auto& r : op.rows) {
        spreads.push_back(r.spread);
        if (op.axes == std::vector<std::string>{"m", "n", "k"})
          best = max(best, Flops{2 * r.size[0] * r.size[1] * r.size[2]} / r.time);
      }
    table.rows.push_back({std::to_string(s.ranks), std::string(name_of(s.arithmetic)), std::to_string(s.threads),
                          to_string(best), s.copy_rate ? to_string(*s.copy_rate) : "-", to_string(s.dispatch),
                          fmt::format("{:.0f} %", 100 * s.taken_by_communication),
                          s.taken_by_others ? fmt::format("{:.0f} %", 100 * *s.taken_by_others) : "-",
                          fmt::format("{:.1f} %", 100 * spread_of(spreads).median)});
  }
  out.blocks.emplace_back(Heading{fmt::format("{} with {}: {}", p.name, p.math_library, file)});
  out.blocks.emplace_back(table);
  out.records = table;
  out.json = to_json(p);
  return out;
}

/// `connected` is null on the CPU, where calibration makes its devices.
int calibrate_rank(Transport& transport, ComputeDevice* connected, const Arguments& arguments, Console& console) {
  const bool tells = transport.rank() == 0;
  RunWatch watch(console, false);
  CalibrationRequest request;
  request.budget_s = budget_of(arguments);
  request.numerics = numerics_asked(arguments);
  request.make_device = [connected](Numerics n) -> std::shared_ptr<ComputeDevice> {
    if (connected != nullptr) return {connected, [](ComputeDevice*) {}};
    return make_cpu_device(n);
  };
  request.apart = connected != nullptr;
  if (connected != nullptr) request.grid = large_grid();
  request.grid.mixed = connected != nullptr && connected->numerics() == Numerics::plan;
  const Cores cores;
  if (connected == nullptr) keep_freed_memory();
  request.share_machine = [connected, &cores, rank = transport.rank()](int ranks) {
    if (connected != nullptr) return 1;
    return set_cpu_threads(cores.bind(rank, ranks));
  };
  request.progress = [&](double share, const std::string& what) {
    watch.check();
    if (tells && errors_on_terminal())
      console.err << fmt::format("\r\033[K{:3.0f} % {}", 100 * share, what) << std::flush;
  };
  DeviceProfile profile = calibrate(transport, request);
  if (!tells) return 0;
  if (errors_on_terminal()) console.err << "\r\033[K";
  describe_machine(profile, arguments, cores.count());
  const std::string file = file_of(arguments);
  write_file(file, to_json(profile));
  console.err << "wrote " << file << "\n";
  for (const DeviceProfile::Setting& s : profile.settings)
    if (const auto busy = busy_words(s.taken_by_others, s.ranks))
      console.err << fmt::format("note: the machine is busy: {}. Calibrate again on a quiet one\n", *busy);
  Document document = summary(profile, file);
  console.out << formats().at("table").value(document, console.style);
  return 0;
}

int calibrate_as(const Place& place, const Arguments& arguments, Console& console) {
  if (!on_cuda(arguments))
    return as_rank(place, console, [&](Transport& t) { return calibrate_rank(t, nullptr, arguments, console); });
  return as_rank_on(place, arguments, console, [&](ComputeDevice& device, Transport& t) {
    return calibrate_rank(t, &device, arguments, console);
  });
}

std::vector<std::string> rank_command_calibrate(const Arguments& arguments, int ranks) {
  std::vector<std::string> out{"rehearse", "calibrate", "--ranks-from-env", "--ranks", std::to_string(ranks)};
  for (const char* option : {"--device", "--numerics", "--budget", "--date", "--output"})
    if (arguments.has(option)) out.insert(out.end(), {option, arguments.text(option)});
  return out;
}

int run_calibrate(const Arguments& arguments, Console& console) {
  check_device(arguments);
  (void)budget_of(arguments);
  (void)numerics_asked(arguments);
  const std::string file = file_of(arguments);
  check_output_path(file);
  const int ranks = static_cast<int>(arguments.whole("--ranks", 1, 1));
  if (ranks > kMostLocalRanks)
    throw Error(ErrorKind::usage, fmt::format("{} ranks on this machine are too many", ranks), "--ranks");
  if (arguments.has("--ranks-from-env")) {
    const auto place = place_from(process_environment());
    if (!place)
      throw Error(ErrorKind::usage, "none of RANK, SLURM_PROCID and OMPI_COMM_WORLD_RANK is set", "--ranks-from-env",
                  "leave the option out: calibrate starts its ranks itself");
    return calibrate_as(*place, arguments, console);
  }
  if (ranks == 1) return calibrate_as({}, arguments, console);
  check_gpus(arguments, ranks);
  const Ended ended = run_ranks(ranks, rank_command_calibrate(arguments, ranks));
  if (!ended.cause.empty()) throw Error(ErrorKind::check_failed, ended.cause, "calibrate");
  return ended.exit_code;
}

}  // namespace

Verb calibrate_verb() {
  return {"calibrate",
          "Measure this machine's kernels and collectives: a profile for simulate, estimate, memory and validate.",
          {"rehearse calibrate --device cpu --ranks 2 -o this_machine.json",
           "rehearse calibrate --device cpu --ranks 1 --budget 20s -o laptop.json"},
          {},
          {{"--device", "NAME", "what is measured: cpu or cuda", "cpu"},
           {"--ranks", "N", "most ranks at work at once; 1, 2, 4, ... of them are measured, too", "1"},
           {"--ranks-from-env", "", "be one of the ranks; for calibrate itself"},
           {"--numerics", "TYPE", "fp32, fp64 or all; on GPUs plan, fp32 or fp64", "fp32; plan on GPUs"},
           {"--budget", "TIME", "about how long it may take; sets repetitions, and on GPUs ends it", "60s"},
           {"--date", "TEXT", "when this is, as the profile shall say"},
           {"-o,--output", "FILE", "the profile; written whole, or not at all"}},
          "Operators and collectives are called as runs call them, by all ranks at the same time where several share "
          "the machine. Keep the machine "
          "idle otherwise: the table says how far repetitions lay apart, and what other programs took of the "
          "processors.",
          run_calibrate};
}

}  // namespace rehearse::cli
