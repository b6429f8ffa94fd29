#include "core/cli/run/run_rank.hpp"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/program/liveness.hpp"
#include "core/report/html/gantt_data.hpp"
#include "core/report/pictures/kineto_trace.hpp"
#include "core/strategy/execution_gaps.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/lower_checks.hpp"
#include "core/strategy/workload.hpp"
#include "gpu_backend/communicate/gloo_world.hpp"
#include "gpu_backend/communicate/local_world.hpp"
#include "gpu_backend/communicate/nccl_world.hpp"
#include "gpu_backend/communicate/net/rendezvous.hpp"
#include "gpu_backend/communicate/share_gpu.hpp"
#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/cores.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/host_memory.hpp"
#include "gpu_backend/cuda/cuda_device.hpp"
#include "gpu_backend/cuda/cuda_environment.hpp"
#include "gpu_backend/cuda/device_probe.hpp"
#include "gpu_backend/execute/missing_operators.hpp"
#include "gpu_backend/execute/plan.hpp"
#include "gpu_backend/train/checkpoint.hpp"
#include "gpu_backend/train/given_samples.hpp"
#include "gpu_backend/train/inputs.hpp"
#include "gpu_backend/train/training.hpp"

namespace rehearse::cli {

namespace {

std::int64_t vocabulary_of(const Network& network) {
  for (const BlockSpec& block : network.blocks)
    for (const ParamSpec& p : block.params)
      for (const Dim& d : p.shape)
        if (d.tag == DimTag::vocabulary) return d.size;
  throw Error(ErrorKind::unavailable, "a network without a vocabulary has no data to run on", "model",
              "'rehearse simulate' plays it");
}

/// Numbers of a sample, and the classes that the loss tells apart.
struct Pictures {
  std::int64_t numbers = 1, classes = 1;
};
Pictures pictures_of(const Network& network) {
  Pictures out;
  const BlockSpec& last = network.blocks.back();
  // Two networks are shown images of the kind that the discriminator takes; classes mean nothing to it.
  if (network.adversarial()) {
    const BlockSpec& judge = nth(network.blocks, network.discriminator);
    const Shape& image = nth(judge.tensors, judge.input).shape;
    for (std::size_t d = 1; d < image.size(); ++d) out.numbers *= image[d].size;
    out.classes = 256;
    return out;
  }
  for (const TensorSpec& t : network.blocks.front().tensors)
    if (t.loaded)
      for (std::size_t d = 1; d < t.shape.size(); ++d) out.numbers *= t.shape[d].size;
  for (const OpSpec& op : last.ops) {
    const Shape& logits = nth(last.tensors, op.inputs[0]).shape;
    if (op.kind == OpKind::cross_entropy) out.classes = logits.back().size;
    if (op.kind == OpKind::pixel_loss) out.classes = logits[1].size;
  }
  return out;
}
}  // namespace

std::unique_ptr<DataSource> data_of(const Session& session, const Arguments& arguments) {
  const std::uint64_t seed = session.scenario.training.seed;
  const std::string file = arguments.text("--data");
  if (file.ends_with(".safetensors")) {
    const bool sequences = session.workload.network.sequences;
    const Pictures p = sequences ? Pictures{} : pictures_of(session.workload.network);
    return given_samples(file, {.per_step = session.scenario.training.global_batch,
                                .vocabulary = sequences ? vocabulary_of(session.workload.network) : 0,
                                .numbers = p.numbers,
                                .classes = p.classes});
  }
  if (!session.workload.network.sequences) {
    const Pictures p = pictures_of(session.workload.network);
    return !file.empty() ? images_of_file(file, seed, p.classes, p.numbers) : synthetic_images(seed, p.classes);
  }
  const std::int64_t vocabulary = vocabulary_of(session.workload.network);
  return !file.empty() ? bytes_of_file(file, seed, vocabulary) : synthetic_tokens(seed, vocabulary);
}

void check_device(const Arguments& arguments) {
  const std::string name = arguments.text("--device", "cpu");
  if (name == "cpu") return;
  if (name != "cuda") {
    Error e = unknown_name("device", name, std::vector<std::string>{"cpu", "cuda"});
    e.where = "--device";
    throw e;
  }
  const DeviceProbe probe = probe_cuda_devices();
  if (probe.devices.empty())
    throw Error(ErrorKind::unavailable, fmt::format("no CUDA device: {}", probe.none_because), "--device cuda",
                "run on a machine with an NVIDIA GPU and driver, or use --device cpu");
  if (!cuda_missing().empty())
    throw Error(ErrorKind::unavailable, cuda_missing(), "--device cuda",
                "build where nvcc, cuBLASLt and NCCL are installed, or use --device cpu");
}

void check_gpus(const Arguments& arguments, int ranks) {
  if (!on_cuda(arguments) || arguments.has("--share-gpu")) return;
  const auto gpus = static_cast<int>(probe_cuda_devices().devices.size());
  if (ranks > gpus)
    throw Error(ErrorKind::unavailable, fmt::format("{} ranks need as many GPUs; this machine shows {}", ranks, gpus),
                "--device cuda", "give --ranks and smaller axes, or add --share-gpu to test several ranks on one GPU");
}

bool on_cuda(const Arguments& arguments) { return arguments.text("--device", "cpu") == "cuda"; }

Numerics numerics_of(const Arguments& arguments) {
  const bool cuda = on_cuda(arguments);
  const std::string name = arguments.text("--numerics", cuda ? "plan" : "fp32");
  if (name == "fp32") return Numerics::fp32;
  if (name == "fp64") return Numerics::fp64;
  if (name == "plan" && cuda) return Numerics::plan;
  Error e =
      unknown_name("numerics", name,
                   cuda ? std::vector<std::string>{"fp32", "fp64", "plan"} : std::vector<std::string>{"fp32", "fp64"});
  e.where = "--numerics";
  throw e;
}

namespace {

/// Where a rank has failed the others' calls may never return, so the process ends here, by design without destructors.
[[noreturn]] void end_process(int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}

void print_error(const Error& e, std::ostream& to) {
  to << fmt::format("error: {}{}{}\n", e.where, e.where.empty() ? "" : ": ", e.what());
  if (!e.hint.empty()) to << fmt::format("  hint: {}\n", e.hint);
  to.flush();
}

/// What a step is measured in: tokens, or samples where they are no sequences.
struct Pace {
  double amount;
  const char* unit;
};
Pace work_of(const Program& p) {
  return p.tokens_per_step > 0 ? Pace{p.tokens_per_step, "tokens"} : Pace{p.samples_per_step, "samples"};
}

std::string step_line(const StepResult& r, const Pace& work) {
  return fmt::format("step {:5}  loss {:.6f}  norm {:8.4f}  {:9.2f} ms  {:9.0f} {}/s  memory {:.2f} MB\n", r.step,
                     r.loss, r.gradient_norm, r.seconds * 1e3, work.amount / r.seconds, work.unit,
                     r.peak_bytes.value() / 1e6);
}

/// What computed, for people.
std::string described(const ComputeDevice& device) {
  if (device.name() == "cpu") return fmt::format("cpu, {}", blas_name());
  const auto devices = probe_cuda_devices().devices;
  return fmt::format("cuda, {}{}", devices.empty() ? "" : devices.front().name,
                     nccl_version().empty() ? "" : ", NCCL " + nccl_version());
}

std::string summary_json(const Session& session, const Program& program, const TrainingSummary& s, const Place& place,
                         const ComputeDevice& device) {
  auto out = nlohmann::ordered_json::object();
  out["schema"] = "rehearse/run/v1";
  out["scenario"] = nlohmann::ordered_json::parse(resolved_json(session.scenario));
  out["backend"] = device.name();
  out["ranks"] = place.ranks;
  out["steps"] = s.last.step + 1;
  out["resumed_at"] = s.resumed.step;
  out["loss"] = s.last.loss;
  out["losses"] = s.losses;
  if (!s.init_names.empty()) out["init_names"] = s.init_names;
  if (!s.saved_names.empty()) out["saved_names"] = s.saved_names;
  out["step_time_s"] = s.times.median;
  out["step_time_p5_s"] = s.times.p5;
  out["step_time_p95_s"] = s.times.p95;
  out["steps_timed"] = s.times.counted;
  if (session.scenario.kernels.cuda_graphs) out["steps_replayed"] = s.replayed;
  out["tokens_per_s"] = s.times.median > 0 ? program.tokens_per_step / s.times.median : 0.0;
  out["model_flops_per_s_per_gpu"] =
      s.times.median > 0 ? program.model_flops_per_step / s.times.median / place.ranks : 0.0;
  nlohmann::ordered_json memory{{"stage", nth(program.role_of_rank, place.rank)},
                                {"peak_bytes", s.last.peak_bytes.value()}};
  for (int c = 0; c < kMemoryCategories; ++c)
    memory["by_category"][std::string(name_of(static_cast<MemoryCategory>(c)))] = nth(s.last.peak, c).value();
  if (device.name() == "cuda") {
    const CudaMemory held = cuda_memory(device);
    memory["device_peak_bytes"] = held.peak.value();
    memory["capacity_bytes"] = held.capacity.value();
  }
  out["memory"].push_back(std::move(memory));
  return out.dump(2) + "\n";
}

Document summary(const Session& session, const Program& program, const TrainingSummary& s, const Place& place,
                 const DataSource& data, const ComputeDevice& device) {
  Document out;
  const double tokens = s.times.median > 0 ? program.tokens_per_step / s.times.median : 0;
  const Pace work = work_of(program);
  Facts facts{"",
              {{"steps", s.resumed.step > 0 ? fmt::format("{} to {}", s.resumed.step, s.last.step)
                                            : fmt::format("{}", s.last.step + 1)},
               {"ranks", fmt::format("{} on {}", place.ranks, described(device))},
               {"data", data.describe()},
               {"step time", fmt::format("{:.2f} ms median, {:.2f} to {:.2f} ms (5 to 95 % of {})",
                                         s.times.median * 1e3, s.times.p5 * 1e3, s.times.p95 * 1e3, s.times.counted)},
               {"speed",
                fmt::format("{:.0f} {}/s, {:.2f} GFLOP/s", s.times.median > 0 ? work.amount / s.times.median : 0.0,
                            work.unit, s.times.median > 0 ? program.model_flops_per_step / s.times.median / 1e9 : 0.0)},
               {"memory", fmt::format("{:.2f} MB per rank at its peak, as the plan counts it",
                                      s.last.peak_bytes.value() / 1e6)}}};
  if (!s.init_names.empty())
    facts.rows.push_back({"began with", fmt::format("given weights, names of {}", s.init_names)});
  if (!s.saved_names.empty())
    facts.rows.push_back({"left", fmt::format("weights under the names of {}", s.saved_names)});
  if (s.replayed > 0)
    facts.rows.push_back(
        {"CUDA graphs",
         fmt::format("{} steps replayed as one launch each, the others issued task by task", s.replayed)});
  if (device.name() == "cuda") {
    facts.rows.push_back({"fused attention", cuda_attention(device)});
    if (std::string who = cuda_convolutions(device); !who.empty())
      facts.rows.push_back({"convolutions", std::move(who)});
    facts.rows.push_back({"device memory", fmt::format("{:.2f} MB at its peak, tensors and workspace, of {:.0f} MB",
                                                       cuda_memory(device).peak.value() / 1e6,
                                                       cuda_memory(device).capacity.value() / 1e6)});
  }
  out.blocks.emplace_back(std::move(facts));
  out.records = {"",
                 {{"steps", true}, {"loss", true}, {"step_time_s", true}, {"tokens_per_s", true}},
                 {{fmt::format("{}", s.last.step + 1), fmt::format("{}", s.last.loss),
                   fmt::format("{}", s.times.median), fmt::format("{}", tokens)}}};
  out.json = summary_json(session, program, s, place, device);
  return out;
}

void write_spans(const std::string& file, const Program& program, const Session& session, const TrainingSummary& result,
                 const ComputeDevice& device, Console& console) {
  std::vector<int> ranks(static_cast<std::size_t>(program.mesh.ranks()));
  for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r] = static_cast<int>(r);
  Trace trace(ranks);
  trace.streams = program.stream_names();
  trace.spans = result.spans;
  // A replay is one launch, without times of its tasks.
  const std::string issued =
      result.replayed > 0 ? "; this step was issued task by task, those before it were replayed as CUDA graphs" : "";
  const auto out = open_output(file);
  write_kineto(trace, program, session.cluster, program.name, *out, described(device) + issued);
  out->close();
  console.err << fmt::format("wrote {}: {} spans; open it at https://ui.perfetto.dev{}\n", file, result.spans.size(),
                             issued);
}

HtmlParts run_pictures(const PlanSummary& plan, const std::vector<StepResult>& steps, const std::vector<Span>& spans,
                       int ranks, const std::string& data) {
  auto told = nlohmann::ordered_json::array();
  for (const StepResult& r : steps)
    told.push_back({{"step", r.step}, {"loss", r.loss}, {"norm", r.gradient_norm}, {"seconds", r.seconds}});
  HtmlParts out{{"plan", plan_json(plan)}, {"steps", told.dump()}, {"data", nlohmann::ordered_json(data).dump()}};
  if (spans.empty()) return out;
  Trace trace({});
  trace.spans = spans;
  std::vector<GanttRow> rows;
  for (int r = 0; r < ranks; ++r) rows.push_back({fmt::format("rank {}", r), r});
  Seconds begin{1e300}, end{-1e300};
  for (const Span& s : spans) begin = min(begin, s.begin), end = max(end, s.end);
  out.emplace_back("gantt", gantt_json({{&trace, sampled(rows), begin, end - begin}}));
  return out;
}

/// What a rank computes with, and what it needs to talk to others. The last member goes first.
struct Connection {
  std::unique_ptr<ComputeDevice> device;
  std::unique_ptr<net::RendezvousServer> server;
  std::unique_ptr<LocalWorld> alone;
  std::unique_ptr<Transport> transport;
};

std::unique_ptr<ComputeDevice> device_of(const Place& place, const Arguments& arguments, std::ostream& err) {
  if (!on_cuda(arguments)) {
    keep_freed_memory();
    const Cores cores;
    const bool divided = !place.launched && cores.chosen();  // By the launcher.
    set_cpu_threads(divided ? cores.count() : cores.bind(place.local_rank, place.local_ranks));
    return make_cpu_device(numerics_of(arguments));
  }
  const std::vector<std::string> set = set_cuda_environment(place.ranks);
  if (!set.empty() && place.rank == 0)
    err << fmt::format("set in the environment of {} ranks: {}\n", place.ranks, fmt::join(set, " "));
  const bool shares = arguments.has("--share-gpu");
  if (shares) share_gpu(place.rank);
  const auto gpus = std::max<int>(1, static_cast<int>(probe_cuda_devices().devices.size()));
  CudaOptions options{.index = shares ? place.local_rank % gpus : place.local_rank, .numerics = numerics_of(arguments)};
  if (std::getenv("REHEARSE_ONE_BY_ONE") != nullptr)
    options.on_task = [&err, rank = place.rank](std::string_view task) {
      err << fmt::format("rank {}: {}\n", rank, task) << std::flush;
    };
  return make_cuda_device(options);
}

/// `device` is null where the work makes its own, on the CPU.
Connection connect(const Place& place, std::unique_ptr<ComputeDevice> device, std::ostream& err) {
  Connection out;
  out.device = std::move(device);
  if (place.ranks == 1) {
    out.alone = std::make_unique<LocalWorld>(1);
    out.transport = out.alone->transport(0);
    return out;
  }
  if (place.rank == 0 && !place.launched)
    out.server =
        std::make_unique<net::RendezvousServer>(place.host, place.port, net::RunName{place.run_id, place.ranks});
  const bool tells = !place.launched;  // A launcher tells for all of its ranks.
  const auto on_failure = [tells, &err](const std::string& cause) {
    if (tells)
      print_error(Error(ErrorKind::check_failed, cause, "run",
                        "the newest complete checkpoint is intact: --resume goes on from it"),
                  err);
    end_process(tells ? 1 : kEndedWithOthers);
  };
  const MeetingPoint at{place.host, place.port, place.run_id};
  out.transport = out.device && out.device->name() == "cuda"
                      ? join_nccl(place.rank, place.ranks, at, *out.device, on_failure)
                      : join_gloo(place.rank, place.ranks, at, on_failure);
  return out;
}

TrainingRun training_run(const Session& session, const Arguments& arguments) {
  TrainingRun run;
  run.init = arguments.text("--init");
  run.save_weights = arguments.text("--save-weights");
  if (!run.init.empty() || !run.save_weights.empty())
    run.weight_names = read_weight_names(session.data.weight_names().string());
  run.steps = arguments.whole("--steps", 1, 10);
  run.checkpoints = arguments.text("--checkpoint");
  run.save_every = arguments.whole("--save-every", 0, 0);
  run.resume = arguments.has("--resume");
  run.trace = arguments.has("--trace") || arguments.has("--html");
  return run;
}

}  // namespace

void tell_not_replayed(const std::string& because, Console& console) {
  console.err << fmt::format("kernels.cuda_graphs: steps were issued task by task: {}\n", because);
}

namespace {

/// At most `n` of them.
std::span<const std::string> first_of(const std::vector<std::string>& texts, std::size_t n) {
  return std::span(texts).first(std::min(n, texts.size()));
}

int train_and_print(const Session& session, const Place& place, const Arguments& arguments, Console& console,
                    ComputeDevice& device, Transport& transport) {
  const Program program = executable_program(session, place.ranks);
  const auto data = data_of(session, arguments);
  TrainingRun run = training_run(session, arguments);
  const bool tells = place.rank == 0;
  const bool lines = tells && arguments.text("--format", "table") == "table";
  run.replay = session.scenario.kernels.cuda_graphs;
  std::vector<StepResult> steps;
  run.on_resume = [&](const Resumed& r) {
    if (tells && r.divided_anew)
      console.err << fmt::format(
          "the checkpoint of step {} is of {} rank{} under another plan: parameters and optimizer "
          "state are divided anew\n",
          r.step, r.ranks, r.ranks == 1 ? "" : "s");
  };
  run.on_init = [&](const GivenWeights& w) {
    if (tells && !w.unused().empty())
      console.err << fmt::format("--init: {} of its tensors are no parameters of this model: {}{}\n", w.unused().size(),
                                 fmt::join(first_of(w.unused(), 4), ", "), w.unused().size() > 4 ? ", ..." : "");
  };
  run.on_step = [&](const StepResult& r) {
    if (tells && arguments.has("--html")) steps.push_back(r);
    if (lines) console.out << step_line(r, work_of(program)) << std::flush;
  };
  const TrainingSummary result = train(program, device, transport, *data, run);
  if (!tells) return 0;
  if (!result.not_replayed_because.empty()) tell_not_replayed(result.not_replayed_because, console);
  if (result.times.counted == 0) {
    console.err << fmt::format("the checkpoint is at step {}: nothing is left of {} steps; raise --steps\n",
                               result.resumed.step, run.steps);
    return 0;
  }
  const Document document = summary(session, program, result, place, *data, device);
  print(document, arguments, console);
  if (arguments.has("--trace")) write_spans(arguments.text("--trace"), program, session, result, device, console);
  write_html("run", document, arguments, console, [&] {
    return run_pictures(session.head(program).plan, steps, result.spans, place.ranks, data->describe());
  });
  return 0;
}

}  // namespace

Program executable_program(const Session& session, int ranks) {
  Program out = lower(session.workload, session.scenario.strategy, ranks);
  check_executable({session.workload, completed(session.scenario.strategy), out.microbatches});
  return out;
}

void check_memory(const Program& program, int ranks) {
  const Bytes free = available_memory();
  if (free == Bytes{}) return;
  std::vector<Bytes> peaks(program.roles.size());
  for (const RoleMemory& m : peak_memory(program, Bytes{}, Bytes{})) nth(peaks, m.role) = m.peak;
  Bytes needed{};
  for (int r = 0; r < ranks; ++r) needed += nth(peaks, nth(program.role_of_rank, r));
  if (needed > free)
    throw Error(ErrorKind::infeasible,
                fmt::format("{} {} at least {} of memory, and this machine has {} left", ranks,
                            ranks == 1 ? "rank needs" : "ranks need", to_string_iec(needed), to_string_iec(free)),
                "run", "'rehearse simulate' plays the plan without running it; or take a smaller model or batch");
}

void check_run(const Session& session, int ranks, const Arguments& arguments) {
  const Program program = executable_program(session, ranks);
  if (!on_cuda(arguments)) check_memory(program, ranks);
  const auto data = data_of(session, arguments);
  const Numerics numerics = numerics_of(arguments);
  if (const TrainingRun run = training_run(session, arguments); run.resume) {
    const Checkpoints checkpoints(run.checkpoints, program, numerics);
    checkpoints.check(checkpoints.newest_to_resume());
  }
  if (const TrainingRun run = training_run(session, arguments); !run.init.empty())
    (void)GivenWeights(run.init, program, run.weight_names);
  const auto& operators = (on_cuda(arguments) ? cuda_operators() : cpu_operators()).entries();
  const auto has = [&](std::string_view name) {
    return std::any_of(operators.begin(), operators.end(), [&](const auto& e) { return e.name == name; });
  };
  if (const auto missing = missing_operators(program, has); !missing.empty())
    throw lacks(on_cuda(arguments) ? "cuda" : "cpu", missing);
  const RankPlan plan(program, 0);
  for (const Instruction& in : plan.step())
    if (const auto* input = std::get_if<InputTask>(&in.task->kind)) check_input(program, *data, *input);
}

namespace {

/// Does a rank's work. With several ranks its failure is told to the others and ends the process.
int guarded(const Place& place, Console& console, Transport& transport, const std::function<int()>& work) {
  if (place.ranks == 1) return work();
  try {
    return work();
  } catch (Error& e) {
    transport.fail(e.what());
    e.where = fmt::format("rank {}{}{}", place.rank, e.where.empty() ? "" : ": ", e.where);
    print_error(e, console.err);
    end_process(static_cast<int>(e.kind));
  } catch (const std::exception& e) {
    transport.fail(e.what());
    print_error(Error(ErrorKind::check_failed, e.what(), fmt::format("rank {}", place.rank)), console.err);
    end_process(1);
  }
}

}  // namespace

int as_rank(const Place& place, Console& console, const std::function<int(Transport&)>& work) {
  const Connection connection = connect(place, nullptr, console.err);
  return guarded(place, console, *connection.transport, [&] { return work(*connection.transport); });
}

int as_rank_on(const Place& place, const Arguments& arguments, Console& console,
               const std::function<int(ComputeDevice&, Transport&)>& work) {
  const Connection connection = connect(place, device_of(place, arguments, console.err), console.err);
  return guarded(place, console, *connection.transport,
                 [&] { return work(*connection.device, *connection.transport); });
}

int run_rank(const Session& session, const Place& place, const Arguments& arguments, Console& console) {
  return as_rank_on(place, arguments, console, [&](ComputeDevice& device, Transport& transport) {
    return train_and_print(session, place, arguments, console, device, transport);
  });
}

}  // namespace rehearse::cli
