// A run goes on under another plan than the one that wrote its checkpoint: parameters and optimizer state are divided
// anew, and the losses are those of one run.

#include <fmt/format.h>

#include "gpu_backend/train/checkpoint.hpp"
#include "gpu_backend/train/training.hpp"
#include "tests/parity/jobs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/folder.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr double kTolerance = 1e-9;  // As between plans that are not interrupted.

struct Told {
  std::map<std::int64_t, double> losses;  ///< By step.
  Resumed resumed;
};

/// `from` > 0: goes on from the checkpoint there. With a folder it leaves one after the last step.
Told run_for_real(const Program& p, std::int64_t from, std::int64_t steps, const std::string& folder) {
  set_cpu_threads(1);
  Told out;
  const auto data = p.tokens_per_step > 0 ? synthetic_tokens(p.seed, kVocabulary) : synthetic_images(p.seed, kClasses);
  run_locally(p.mesh.ranks(), [&](Transport& transport) {
    const auto device = make_cpu_device(Numerics::fp64, Seconds{0});
    TrainingRun run;
    run.steps = steps;
    run.checkpoints = folder;
    run.resume = from > 0;
    if (transport.rank() == 0) run.on_step = [&](const StepResult& r) { out.losses[r.step] = r.loss; };
    const TrainingSummary summary = train(p, *device, transport, *data, run);
    if (transport.rank() == 0) out.resumed = summary.resumed;
  });
  return out;
}

Variation variation(const std::string& name) {
  for (const Variation& v : all_variations())
    if (v.name == name) return v;
  throw std::logic_error("no variation '" + name + "'");
}

/// "" is one rank; "dp + pp" two variations.
Program plan(const Job& job, const std::string& names) {
  std::vector<Variation> chosen;
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find(" + ", at), names.size());
    chosen.push_back(variation(names.substr(at, end - at)));
    at = end + 3;
  }
  return spread(job, chosen);
}

void check_goes_on(const std::map<std::int64_t, double>& whole, const Told& second, std::int64_t first_step) {
  REQUIRE(second.losses.size() == whole.size() - static_cast<std::size_t>(first_step));
  for (const auto& [step, loss] : second.losses) {
    INFO("step " << step);
    CHECK(loss == Approx(whole.at(step)).epsilon(kTolerance));
  }
}

/// Ten steps under `first` against five under it and five under `second`.
void check_pair(const Job& job, const std::string& first, const std::string& second) {
  INFO("'" << first << "', then '" << second << "'");
  const Folder folder("resume");
  const Program a = plan(job, first), b = plan(job, second);
  const Told whole = run_for_real(a, 0, 10, "");
  (void)run_for_real(a, 0, 5, folder.path());
  const Told rest = run_for_real(b, 5, 10, folder.path());
  check_goes_on(whole.losses, rest, 5);
  CHECK(rest.resumed.divided_anew);
  CHECK(rest.resumed.ranks == a.mesh.ranks());
  // What is kept matters: a run without it has other losses.
  const Told fresh = run_for_real(b, 0, 1, "");
  CHECK(std::abs(fresh.losses.at(0) - rest.losses.at(5)) > 1e-3);
}

std::string refusal(const Job& job, const std::string& first, const Job& other, const std::string& second) {
  const Folder folder("refused");
  (void)run_for_real(plan(job, first), 0, 1, folder.path());
  try {
    (void)run_for_real(plan(other, second), 1, 2, folder.path());
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::usage);
    CHECK(!e.hint.empty());
    return e.what();
  }
  return "it goes on";
}

}  // namespace

TEST_CASE("ten steps are five and five under another plan", "[resume]") {
  const Job gpt = small_job(Net::gpt);
  for (const auto& [first, second] :
       std::vector<std::pair<std::string, std::string>>{{"dp", "tp"},
                                                        {"tp", "pp"},
                                                        {"pp", "dp"},
                                                        {"zero1", "tp"},
                                                        {"zero1, gathered late", ""},
                                                        {"tp + dp", "fsdp"},
                                                        {"fsdp", "zero3"},
                                                        {"zero3", "pp, uneven stages"},
                                                        {"", "zero1 + pp"},
                                                        {"interleaved_1f1b", "tp with sequence parallelism"},
                                                        {"dualpipe", "cp, ring"}})
    check_pair(gpt, first, second);
  const Job experts = small_job(Net::mixtral);
  check_pair(experts, "ep", "tp with sequence parallelism");
  check_pair(experts, "dp", "ep over tp");
  check_pair(experts, "etp", "ep + zero1");
}

TEST_CASE("masters, factored statistics and norms of whole tensors are divided anew, too", "[resume]") {
  Job mixed = small_job(Net::llama);
  mixed.workload.training.precision = Precision::bf16_mixed;
  check_pair(mixed, "zero1", "fsdp");
  check_pair(mixed, "fsdp", "tp");
  check_pair(small_job(Net::gpt, Optimizer::adafactor), "tp", "zero1");
  check_pair(small_job(Net::gpt, Optimizer::lamb), "zero1", "pp");
  check_pair(small_job(Net::gpt, Optimizer::sgd), "dp", "fsdp");
}

TEST_CASE("every plan takes up one rank's checkpoint, and one rank every plan's", "[resume]") {
  for (const Net net : {Net::gpt, Net::mixtral, Net::cnn}) {
    const Job job = small_job(net);
    const Folder alone("one-rank");
    const Told whole = run_for_real(plan(job, ""), 0, 2, "");
    (void)run_for_real(plan(job, ""), 0, 1, alone.path());
    for (const Variation& v : all_variations()) {
      if (net != net_of(v)) continue;
      INFO(v.name);
      const Folder folder("every-plan");
      const Program p = spread(job, {v});
      std::filesystem::copy(alone.path(), folder.path(), std::filesystem::copy_options::recursive);
      check_goes_on(whole.losses, run_for_real(p, 1, 2, folder.path()), 1);
      std::filesystem::remove_all(folder.path());
      (void)run_for_real(p, 0, 1, folder.path());
      check_goes_on(whole.losses, run_for_real(plan(job, ""), 1, 2, folder.path()), 1);
    }
  }
}

TEST_CASE("a checkpoint of another model, optimizer, precision or other data is refused with the reason", "[resume]") {
  using Catch::Matchers::ContainsSubstring;
  const Job job = small_job(Net::gpt);
  CHECK_THAT(refusal(job, "dp", small_job(Net::llama), "tp"), ContainsSubstring("of another model: it has no '"));
  Job wider = job;
  wider.workload.network = changed("tiny_gpt2", {{"n_layer", 4},
                                                 {"n_embd", 16},
                                                 {"n_head", 4},
                                                 {"n_inner", 48},
                                                 {"n_positions", 16},
                                                 {"vocab_size", kVocabulary}});
  CHECK_THAT(refusal(job, "dp", wider, "tp"), ContainsSubstring("32 there, 48 here"));
  Job shorter = job;
  shorter.workload.network = changed("tiny_gpt2", {{"n_layer", 3},
                                                   {"n_embd", 16},
                                                   {"n_head", 4},
                                                   {"n_inner", 32},
                                                   {"n_positions", 16},
                                                   {"vocab_size", kVocabulary}});
  CHECK_THAT(refusal(job, "dp", shorter, ""), ContainsSubstring("this one has not"));
  CHECK_THAT(refusal(job, "dp", small_job(Net::gpt, Optimizer::sgd), "tp"),
             ContainsSubstring("another optimizer: adamw there, sgd here"));
  Job mixed = job;
  mixed.workload.training.precision = Precision::bf16_mixed;
  CHECK_THAT(refusal(job, "dp", mixed, "tp"), ContainsSubstring("another precision"));
  CHECK_THAT(refusal(mixed, "fsdp", job, "tp"), ContainsSubstring("another precision"));
  Job seeded = job;
  seeded.workload.training.seed += 1;
  CHECK_THAT(refusal(job, "dp", seeded, "tp"), ContainsSubstring("with other data: seed"));
  // What is not learned may change.
  Job slower = job;
  slower.workload.training.learning_rate /= 2;
  CHECK(refusal(job, "dp", slower, "dp") == "it goes on");
}

TEST_CASE("of a checkpoint that another plan takes up, every rank's file is needed", "[resume]") {
  const Folder folder("missing");
  const Job job = small_job(Net::gpt);
  (void)run_for_real(plan(job, "tp"), 0, 1, folder.path());
  std::filesystem::remove(folder.path() / "step-000001" / "rank-0001.bin");
  CHECK_THROWS_WITH(run_for_real(plan(job, "pp"), 1, 2, folder.path()),
                    Catch::Matchers::ContainsSubstring("cannot be read"));
}
