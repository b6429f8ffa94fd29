#pragma once
// What is known of a job so far: keys of a scenario, and the facts from which others follow (core/translate/facts.hpp),
// each with who said it; and what became of every setting.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/import/job/files/setting.hpp"

namespace rehearse::job {

using Json = nlohmann::ordered_json;

struct Fact {
  Json value;
  std::string theirs;  ///< The setting that says it; empty where it follows from others.
  std::string where;   ///< "train.sh:12"
};

/// What became of one setting.
struct Outcome {
  enum class Kind { taken, ignored, asked };
  Kind kind = Kind::ignored;
  std::string setting, value, where;
  std::string key, result;  ///< taken: the key or fact, and what it is now.
  std::string why;          ///< ignored: the reason; asked: what to do.
};

/// Something that a scenario needs and no file says.
struct Question {
  std::string what;  ///< "the number of GPUs"
  std::string how;   ///< "--gpus N"
};

class Draft {
 public:
  std::map<std::string, Fact> facts;
  std::vector<Outcome> outcomes;
  std::vector<Question> questions;
  std::vector<std::string> notes;  ///< What was taken for granted, one line each.

  [[nodiscard]] bool has(const std::string& name) const { return facts.contains(name); }
  /// Null where it is unknown.
  [[nodiscard]] const Fact* find(const std::string& name) const;
  [[nodiscard]] std::int64_t whole(const std::string& name, std::int64_t fallback) const;
  [[nodiscard]] double real(const std::string& name, double fallback) const;
  [[nodiscard]] bool flag(const std::string& name, bool fallback = false) const;
  [[nodiscard]] std::string word(const std::string& name, const std::string& fallback = {}) const;
  /// The words of a list, or the one word.
  [[nodiscard]] std::vector<std::string> list(const std::string& name) const;

  /// What follows from others; what a file says stays.
  void follow(const std::string& name, Json value);
  /// In place of what was there.
  void replace(const std::string& name, Json value);
  void ask(std::string what, std::string how) { questions.push_back({std::move(what), std::move(how)}); }
  /// "train.sh:12: --num-layers" of a fact, for messages.
  [[nodiscard]] std::string said(const std::string& name) const;
};

/// Takes every setting of the sections by the tables of their languages. What stands first goes first; inside a section
/// the last of one name does. `last_releases` gets the last release of each word that the newest lacks.
void take_settings(const std::vector<Section>& sections, Draft& draft, std::vector<std::string>& last_releases);

// What follows, step by step, in this order; each in a file of its own.

struct Wishes {
  std::int64_t gpus = 0;  ///< That the user states; 0: as the job says.
};

/// Ranks and axes: job.gpus, strategy.tp, strategy.dp, ...
void finish_axes(Draft& draft, const std::string& framework, const Wishes& wishes);
void finish_precision(Draft& draft, const std::string& framework);
/// Microbatch and global batch.
void finish_batch(Draft& draft, const std::string& framework);
/// ZeRO, FSDP, offload, buckets and overlap.
void finish_sharding(Draft& draft, const std::string& framework);
/// After the stages: every n-th layer is a number of layers of each chunk.
void finish_recomputation(Draft& draft, const std::string& framework, std::int64_t layers);
/// Layers of pipeline stages and the schedule; the model's layers must be known.
void finish_stages(Draft& draft, const std::string& framework, std::int64_t layers);
/// Optimizer, adapters, kernels and the length of the run.
void finish_training(Draft& draft, const std::string& framework);

}  // namespace rehearse::job
