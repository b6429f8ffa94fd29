#include <fmt/format.h>

#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/run/optional_parts.hpp"
#include "core/cli/run/run_rank.hpp"
#include "core/cli/verbs.hpp"

namespace rehearse::cli {

namespace {

// Processes on one machine; beyond that a mistyped cluster is likelier than a wish.

/// The command that starts one rank: what was typed, with the ranks spelt out.
std::vector<std::string> rank_command_run(const Arguments& arguments, int ranks) {
  std::vector<std::string> out{"rehearse",         "run",     arguments.text("SCENARIO"),
                               "--ranks-from-env", "--ranks", std::to_string(ranks)};
  for (const char* option : {"--device", "--steps", "--data", "--numerics", "--init", "--save-weights", "--checkpoint",
                             "--save-every", "--trace", "--html", "--format", "--output"})
    if (arguments.has(option)) out.insert(out.end(), {option, arguments.text(option)});
  for (const std::string& set : arguments.all("--set")) out.insert(out.end(), {"--set", set});
  if (arguments.has("--resume")) out.emplace_back("--resume");
  if (arguments.has("--share-gpu")) out.emplace_back("--share-gpu");
  return out;
}

int run(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  check_device(arguments);
  if (arguments.has("--save-every") && !arguments.has("--checkpoint"))
    throw Error(ErrorKind::usage, "there is no folder to save in", "--save-every", "add --checkpoint FOLDER");
  if (arguments.has("--resume") && !arguments.has("--checkpoint"))
    throw Error(ErrorKind::usage, "there is no folder to go on from", "--resume", "add --checkpoint FOLDER");
  if (arguments.has("--resume") && arguments.has("--init"))
    throw Error(ErrorKind::usage, "a checkpoint has its weights", "--init", "leave out --init, or --resume");
  std::optional<Place> place;
  if (arguments.has("--ranks-from-env")) {
    place = place_from(process_environment());
    if (!place)
      throw Error(ErrorKind::usage, "none of RANK, SLURM_PROCID and OMPI_COMM_WORLD_RANK is set", "--ranks-from-env",
                  "start it with torchrun, srun or mpirun, or leave the option out");
  }
  std::optional<int> ranks;
  if (arguments.has("--ranks")) ranks = static_cast<int>(arguments.whole("--ranks", 1, 1));
  if (place) ranks = place->ranks;
  const Session session = open_session(arguments.text("SCENARIO"), arguments.all("--set"), {.ranks = ranks});
  if (!ranks) ranks = session.cluster.device_count();
  if (arguments.has("--dry-run")) {
    (void)executable_program(session, *ranks);
    console.out << resolved_json(session.scenario);
    return 0;
  }
  if (place) return run_rank(session, *place, arguments, console);
  if (*ranks == 1) {
    check_run(session, 1, arguments);
    return run_rank(session, {}, arguments, console);
  }
  if (*ranks > kMostLocalRanks)
    throw Error(ErrorKind::usage, fmt::format("{} ranks on this machine are too many", *ranks), "--ranks",
                "give --ranks and smaller axes, or start one rank per machine with --ranks-from-env");
  check_gpus(arguments, *ranks);
  check_run(session, *ranks, arguments);  // What is wrong for all is said once.
  const Ended ended = run_ranks(*ranks, rank_command_run(arguments, *ranks));
  if (!ended.cause.empty())
    throw Error(ErrorKind::check_failed, ended.cause, "run",
                "the newest complete checkpoint is intact: --resume goes on from it");
  return ended.exit_code;
}

}  // namespace

Verb run_verb() {
  Verb verb{
      "run",
      "Train for real: the same plan, executed on this machine.",
      {"rehearse run scenarios/tiny_gpt2.json --ranks 2 --steps 20",
       "rehearse run scenarios/tiny_cnn.json --ranks 2 --steps 100",
       "rehearse run scenarios/tiny_gpt2.json --ranks 4 --set strategy.tp=2 --data book.txt --checkpoint run1 "
       "--save-every 100",
       "torchrun --no-python --nproc-per-node 2 rehearse run scenarios/tiny_gpt2.json --ranks-from-env"},
      {scenario_positional()},
      {{"--device", "NAME", "what computes: cpu or cuda", "cpu"},
       {"--ranks", "N", "ranks to run, whatever the cluster has", "the cluster's devices"},
       {"--ranks-from-env", "", "be one rank of those started by torchrun, srun or mpirun"},
       {"--steps", "N", "steps of the whole run", "10"},
       {"--data", "FILE",
        "learn the bytes of a file, or the images of one: records of a byte for the class and the pixels; or the "
        "samples of a .safetensors in their order: tokens [n, s + 1], or tokens, labels and token_types [n, s]; "
        "image [n, ...] and labels",
        "synthetic tokens or images"},
       {"--share-gpu", "", "let ranks of this machine share a GPU: correct and slow, to test plans"},
       {"--numerics", "TYPE",
        "arithmetic of all real numbers: fp32, fp64, or with cuda plan, the types of the scenario",
        "fp32; plan with cuda"},
       {"--init", "FILE",
        "begin with the weights of a .safetensors file, of an index of several, or of a folder that holds either; "
        "under the names of Hugging Face, torchvision or this program (topologies/weights)"},
       {"--save-weights", "FILE",
        "write the weights after the last step as .safetensors, under the names of --init, or else those that fit"},
       {"--checkpoint", "FOLDER", "write checkpoints here, at least one at the end"},
       {"--save-every", "N", "steps between checkpoints"},
       {"--resume", "", "go on from the newest complete checkpoint, also of another plan of this run"},
       {"--trace", "FILE", "write the last step of all ranks for Perfetto and PyTorch's tools"}},
      "Without --ranks-from-env every rank is a process on this machine. When one fails or dies, all end with "
      "exit code 1. Types of the "
      "scenario that this device lacks are computed in --numerics.",
      run};
  for (Option& o : result_options()) verb.options.push_back(std::move(o));
  verb.options.push_back(html_option());
  verb.options.push_back(dry_run_option());
  return verb;
}

}  // namespace rehearse::cli
