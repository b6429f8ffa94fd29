#pragma once
// What training software calls the settings of a job: one table for each, which exports write by and imports read by.
//
// A term is one setting in the software's words. What it says is a key of the scenario ("strategy.tp"), or a fact of
// the job or its model ("job.bf16", "model.hidden") from which keys follow; or nothing here, for a reason. Facts are
// named in facts.hpp.
//
//   const Language& megatron = languages().at("megatron").value;
//   const Term* term = megatron.find("--micro-batch-size");
//   read(*term, {"4"}).value;                            // strategy.microbatch is 4
//   megatron.say("strategy.microbatch", 4);              // --micro-batch-size 4
//
// Sources of a table stand where it is made, with file and commit.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/registry.hpp"

namespace rehearse::translate {

using Json = nlohmann::ordered_json;

/// A setting as the software takes it: "--tensor-model-parallel-size" and 8; or by its place in a file,
/// "parallelism.tensor_parallel_degree". Null is a switch.
struct Flag {
  std::string name;
  Json value;
};
using Flags = std::vector<Flag>;

enum class Sense {
  number,   ///< A number, times `scale`.
  words,    ///< One of `words`.
  toggle,   ///< A switch, or a truth value: `on` or `off`.
  text,     ///< Any text.
  list,     ///< Several texts.
  ignored,  ///< It says nothing here: `note` is the reason.
  asked     ///< It matters, and a user has to say what it comes to: `note` says how.
};

struct Term {
  std::string theirs;  ///< A name, or a pattern of many: "--log-*".
  Sense sense = Sense::ignored;
  std::string ours = {};                                 ///< A key of the scenario, or a fact.
  double scale = 1;                                      ///< Ours is theirs times this.
  std::vector<std::pair<std::string, Json>> words = {};  ///< Their word, our value.
  Json on = true, off = false;                           ///< Of a toggle. Null: says nothing.
  std::string note = {};
  std::string until = {};  ///< The last release that has it, as the profile names it; empty: the newest has it.
  bool written = true;     ///< Exports say it so; else it is only understood.

  Term&& with(std::string reason) && { return note = std::move(reason), std::move(*this); }
  Term&& last_in(std::string release) && { return until = std::move(release), written = false, std::move(*this); }
  Term&& only_read() && { return written = false, std::move(*this); }
};

// Makers, in the order in which tables use them.
[[nodiscard]] Term number(std::string theirs, std::string ours, double scale = 1);
[[nodiscard]] Term toggle(std::string theirs, std::string ours, Json on = true, Json off = false);
/// A switch that says something only where it is there: "--bf16".
[[nodiscard]] Term mark(std::string theirs, std::string ours, Json on = true);
[[nodiscard]] Term words(std::string theirs, std::string ours, std::vector<std::pair<std::string, Json>> meanings);
[[nodiscard]] Term text(std::string theirs, std::string ours);
[[nodiscard]] Term list(std::string theirs, std::string ours);
[[nodiscard]] Term asked(std::string theirs, std::string note);
/// Settings that say nothing here, all for one reason.
void ignore(std::vector<Term>& table, std::string_view reason, std::initializer_list<const char*> names);

/// What a setting's words come to.
struct Reading {
  std::optional<Json> value;  ///< Nothing where the words say nothing (a switch that is off), or are wrong.
  std::string wrong;          ///< What is the matter, with the valid words; empty: nothing is.
};
/// Reads the words that stand behind a setting; none for a bare switch.
[[nodiscard]] Reading read(const Term& term, const std::vector<std::string>& said);

/// A value that the software takes where nothing is said, and that differs from the scenario's own default.
struct Fallback {
  std::string ours;
  Json value;
};

struct Language {
  std::string title;      ///< "Megatron-LM"
  std::string framework;  ///< The profile that its jobs name; empty: another language's.
  std::vector<Term> terms;
  std::vector<Fallback> fallbacks = {};
  std::string newest = {};  ///< Release that the words are of, where the framework's newest speaks others.

  /// The term of that name, or else of the longest pattern that it fits; null where there is none.
  [[nodiscard]] const Term* find(std::string_view theirs) const;
  /// How `value` of `ours` is said: no flag where it needs none, nothing where it cannot be.
  [[nodiscard]] std::optional<Flags> say(std::string_view ours, const Json& value) const;
  /// Names by which `ours` is written, with commas between them.
  [[nodiscard]] std::string names_of(std::string_view ours) const;
};

/// By the name of an export's target where there is one: "megatron", "torchtitan", "deepspeed", ...
[[nodiscard]] Registry<Language>& languages();

// Those that targets of export write in, before the registry is full too.
[[nodiscard]] const Language& megatron_words();
[[nodiscard]] const Language& torchtitan_words();
[[nodiscard]] const Language& deepspeed_words();
[[nodiscard]] const Language& pytorch_fsdp_words();
[[nodiscard]] const Language& huggingface_words();  ///< Arguments of the Trainer, accelerate's file among them.
[[nodiscard]] const Language& accelerate_words();   ///< accelerate's file alone, whose places come first here.

}  // namespace rehearse::translate
