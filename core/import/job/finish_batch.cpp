#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/job/draft.hpp"

namespace rehearse::job {

namespace {

/// Sequences of a replica per step, where they are stated so: torchtitan, llm.c.
void take_local_batch(Draft& d, const std::string& framework) {
  if (framework != "torchtitan") return;
  d.follow("job.local_batch", 8);
  const std::int64_t local = d.whole("job.local_batch", 8), dp = d.whole("strategy.dp", 0);
  const std::int64_t pp = d.whole("strategy.pp", 1);
  std::int64_t microbatch = local;
  if (pp > 1) {
    microbatch = d.whole("job.pipeline_microbatch", 1);
    if (const std::int64_t n = d.whole("job.pipeline_microbatches", 0); n > 0)
      microbatch = std::max<std::int64_t>(1, local / n);
  }
  d.follow("strategy.microbatch", microbatch);
  const std::int64_t global = d.whole("job.global_batch", -1);
  if (global > 0)
    d.follow("training.global_batch", global);
  else if (dp > 0)
    d.follow("training.global_batch", local * dp);
}

void take_token_batch(Draft& d) {
  const std::int64_t tokens = d.whole("job.batch_tokens", 0), length = d.whole("training.sequence_length", 1024);
  if (tokens > 0 && length > 0) d.follow("training.global_batch", tokens / length);
}

}  // namespace

void finish_batch(Draft& d, const std::string& framework) {
  take_local_batch(d, framework);
  take_token_batch(d);
  const std::int64_t dp = d.whole("strategy.dp", 0);
  if (d.has("job.global_batch")) d.follow("training.global_batch", d.facts.at("job.global_batch").value);
  if (d.has("job.local_batch") && dp > 0) d.follow("training.global_batch", d.whole("job.local_batch", 1) * dp);
  const std::int64_t accumulation =
      d.whole("job.accumulation", framework == "huggingface-trainer" || framework == "nanotron" ? 1 : 0);
  std::int64_t microbatch = d.whole("strategy.microbatch", 0), global = d.whole("training.global_batch", 0);
  if (microbatch == 0 && framework == "huggingface-trainer" && global == 0) microbatch = 8;  // TrainingArguments.
  if (microbatch == 0 && global > 0 && dp > 0) microbatch = global / (dp * std::max<std::int64_t>(1, accumulation));
  if (microbatch > 0) d.follow("strategy.microbatch", microbatch);
  if (global == 0 && microbatch > 0 && dp > 0) {
    global = microbatch * dp * std::max<std::int64_t>(1, accumulation);
    d.follow("training.global_batch", global);
  }
  // Either follows from the other once the replicas are counted.
  const bool counted = dp > 0;
  if (microbatch <= 0 && (counted || global <= 0))
    d.ask("the sequences of one microbatch", "--set strategy.microbatch=N");
  if (global <= 0 && (counted || microbatch <= 0)) d.ask("the sequences of one step", "--set training.global_batch=N");
  if (global <= 0 || microbatch <= 0 || dp <= 0 || global % (dp * microbatch) == 0) return;
  throw Error(ErrorKind::usage,
              fmt::format("global batch {} is no multiple of dp({}) * microbatch({}) = {}", global, dp, microbatch,
                          dp * microbatch),
              d.said("training.global_batch").empty() ? d.said("strategy.microbatch") : d.said("training.global_batch"),
              "say on how many GPUs it runs (--gpus N), or another batch (--set training.global_batch=N)");
}

}  // namespace rehearse::job
