// Ranks and axes.

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/job/draft.hpp"

namespace rehearse::job {

namespace {

/// "8", "gpu:8", "gpu:a100:4", "1:4" (elastic: the greater); 0 for anything else.
std::int64_t count_in(const std::string& text) {
  const std::size_t colon = text.find_last_of(':');
  const std::string number = colon == std::string::npos ? text : text.substr(colon + 1);
  if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos || number.size() > 7) return 0;
  return std::atoll(number.c_str());
}

/// "localhost:0,1,2,3": devices of one host.
std::int64_t included(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || text.find('@') != std::string::npos) return 0;
  return 1 + std::count(text.begin() + static_cast<std::ptrdiff_t>(colon), text.end(), ',');
}

/// Ranks of the job; 0 where no file says.
std::int64_t ranks(Draft& d, const Wishes& wishes) {
  if (wishes.gpus > 0) return wishes.gpus;
  const std::int64_t nodes = count_in(d.word("job.nodes"));
  std::int64_t each = count_in(d.word("job.gpus_per_node"));
  if (each == 0 && d.has("job.included")) each = included(d.word("job.included"));
  if (each == 0 && d.has("job.visible") && d.word("job.visible").find_first_not_of("0123456789,") == std::string::npos)
    each = 1 + std::count(d.word("job.visible").begin(), d.word("job.visible").end(), ',');
  const std::int64_t all = count_in(d.word("job.gpus"));
  if (nodes > 0 && each > 0) return nodes * each;
  if (all > 0) return all;
  if (each > 0 && !d.has("job.nodes")) {
    d.notes.push_back(
        fmt::format("one node of {} GPUs is taken, as no file says how many nodes: --gpus N says otherwise", each));
    return each;
  }
  return 0;
}

void take_ulysses(Draft& d) {
  if (d.has("job.cp_exchange") && d.whole("strategy.cp", 1) > 1)
    d.follow("strategy.context", d.word("job.cp_exchange"));
  if (!d.has("job.ulysses")) return;
  d.follow("strategy.cp", d.whole("job.ulysses", 1));
  if (d.whole("job.ulysses", 1) > 1) d.follow("strategy.context", "ulysses");
}

/// Megatron's own names of axes.
void take_old_axes(Draft& d, const std::string& framework) {
  for (const char* axis :
       {"strategy.tp", "strategy.pp", "strategy.cp", "strategy.ep", "strategy.etp", "strategy.dp_replicate"})
    if (d.has(axis) && d.whole(axis, 1) < 1) d.replace(axis, 1);
  if (framework == "gpt-neox") d.follow("strategy.pp", 1);
  if (framework.starts_with("megatron-deepspeed") && d.flag("job.no_pipeline")) d.replace("strategy.pp", 1);
  const bool experts = d.has("model.experts") && d.list("model.experts") != std::vector<std::string>{"1"};
  if (!experts && d.whole("strategy.etp", 1) > 1) d.facts.erase("strategy.etp");
  if (!experts && d.whole("strategy.ep", 1) > 1 && !d.has("model.name") && framework != "torchtitan")
    d.facts.erase("strategy.ep");
  if (!experts || d.has("strategy.etp") || d.whole("strategy.ep", 1) == 0) return;
  // From 0.10 on experts are split as the layers around them unless told otherwise.
  if (framework == "megatron-core" || framework == "nemo" || framework == "megatron-bridge")
    d.follow("strategy.etp", d.whole("strategy.tp", 1));
}

/// Replicas are whole, and experts use the ranks of one stage. Throws Error (usage) where the GPUs do not work out.
void check_count(const Draft& d, std::int64_t gpus, std::int64_t others) {
  const std::int64_t tp = d.whole("strategy.tp", 1), pp = d.whole("strategy.pp", 1), cp = d.whole("strategy.cp", 1);
  const std::int64_t etp = d.whole("strategy.etp", 1), ep = d.whole("strategy.ep", 1);
  const bool experts = ep > 1 && etp > 0;
  const std::int64_t step = experts ? std::lcm(others, pp * etp * ep) : others;
  if (gpus % step == 0) return;
  std::string reason =
      fmt::format("{} GPUs do not hold tp({}) * pp({}) * cp({}) = {} ranks a replica", gpus, tp, pp, cp, others);
  if (gpus % others == 0)
    reason = fmt::format("{} GPUs do not hold experts over ep({}) * etp({}) = {} ranks of each of {} stages", gpus, ep,
                         etp, ep * etp, pp);
  const std::string where = d.said("job.gpus_per_node").empty() ? d.said("job.nodes") : d.said("job.gpus_per_node");
  throw Error(ErrorKind::usage, reason, where.empty() ? "--gpus" : where,
              fmt::format("say on how many GPUs it runs: --gpus N, a multiple of {}", step));
}

}  // namespace

void finish_axes(Draft& d, const std::string& framework, const Wishes& wishes) {
  take_ulysses(d);
  take_old_axes(d, framework);
  const std::int64_t gpus = ranks(d, wishes);
  const std::int64_t others = d.whole("strategy.tp", 1) * d.whole("strategy.pp", 1) * d.whole("strategy.cp", 1) *
                              d.whole("strategy.tile_h", 1) * d.whole("strategy.tile_w", 1);
  std::int64_t dp = d.whole("strategy.dp", 0);
  // Degrees of sharding and replication make up the replicas, where both are numbers.
  if (dp == 0 && d.whole("job.shard", -1) > 0 &&
      (framework == "torchtitan" || framework == "huggingface-trainer" || framework.starts_with("pytorch-fsdp")))
    dp = d.whole("job.shard", 1) * d.whole("strategy.dp_replicate", 1);
  if (gpus == 0 && dp > 0) d.follow("strategy.dp", dp);
  if (gpus == 0 && dp > 0) return d.replace("job.gpus", dp * others);
  if (gpus == 0) return;
  d.replace("job.gpus", gpus);
  check_count(d, gpus, others);
  dp = gpus / others;
  if (d.has("strategy.dp") && d.whole("strategy.dp", 0) != dp) {
    d.notes.push_back(fmt::format("dp is {} on {} GPUs, where {} says {}", dp, gpus, d.said("strategy.dp"),
                                  d.whole("strategy.dp", 0)));
  }
  d.replace("strategy.dp", dp);
}

}  // namespace rehearse::job
