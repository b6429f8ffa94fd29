#pragma once
// Jobs drawn uniformly over the values of every setting, and the table of how two predictions of them differ.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "tests/unit/estimate/estimate_jobs.hpp"

namespace rehearse::test {

struct Spread {
  double median = 0, p90 = 0, worst = 0;
};

/// Prints the rows that differ most, all of them with REHEARSE_VERBOSE, and the spread.
inline Spread print(const std::string& title, std::vector<Compared> rows) {
  std::sort(rows.begin(), rows.end(),
            [](const Compared& a, const Compared& b) { return std::abs(a.difference()) < std::abs(b.difference()); });
  const bool all = std::getenv("REHEARSE_VERBOSE") != nullptr;
  const std::size_t shown = all ? rows.size() : std::min<std::size_t>(rows.size(), 12);
  for (std::size_t i = rows.size() - shown; i < rows.size(); ++i)
    fmt::print("  {:>8.3f} %  {:>10.4f} ms played  {:>10.4f} ms estimated  {}\n", 100 * rows[i].difference(),
               1e3 * rows[i].analytic, 1e3 * rows[i].estimated, rows[i].name);
  const auto at = [&](double q) {
    return std::abs(rows[static_cast<std::size_t>(q * static_cast<double>(rows.size() - 1))].difference());
  };
  const Spread s{at(0.5), at(0.9), at(1.0)};
  fmt::print("{}: {} rows, median {:.3f} %, 90th percentile {:.3f} %, worst {:.3f} %\n", title, rows.size(),
             100 * s.median, 100 * s.p90, 100 * s.worst);
  return s;
}

template <class T>
const T& any_of(std::mt19937_64& random, const std::vector<T>& values) {
  return values[random() % values.size()];
}

struct Place {
  std::string machine;
  int nodes;
  std::string network;
};

struct Drawn {
  std::string name;
  const Site* site;
  Workload workload;
  StrategySettings strategy;
};

inline const Network& network(const std::string& name) {
  static std::map<std::string, Network> known;
  const auto at = known.find(name);
  return at != known.end() ? at->second
                           : known.emplace(name, ModelLibrary(kSource + "/scenarios/models").load(name)).first->second;
}

inline const Site& site(const Place& place) {
  static std::map<std::string, std::unique_ptr<Site>> known;
  auto& at = known[fmt::format("{} {} {}", place.machine, place.nodes, place.network)];
  if (!at) at = make_site(place.machine, place.nodes, place.network);
  return *at;
}

inline const std::vector<std::string> kDense{"tiny_gpt2", "gpt2",         "gpt2_xl",  "llama3_8b",
                                             "llama2_7b", "gpt_neox_20b", "gpt3_175b"};
inline const std::vector<std::string> kExperts{"tiny_mixtral", "tiny_deepseek", "nemotron_3_nano_30b_a3b",
                                               "mixtral_8x7b", "qwen3_30b_a3b", "deepseek_v3"};

/// How tokens go to experts, for networks that have any.
inline std::string draw_experts(std::mt19937_64& random, Drawn& d) {
  StrategySettings& s = d.strategy;
  ExpertSettings& e = d.workload.training.experts;
  s.ep = any_of(random, std::vector{1, 2, 8, 16});
  s.etp = any_of(random, std::vector{1, 1, 2, 8});
  s.sequence_parallel = true;
  s.uneven_layers = true;
  if (s.ep >= 16 && random() % 2 == 0) {
    s.dispatch = Dispatch::hierarchical;
    s.dispatch_node = 8;
  }
  e.imbalance = any_of(random, std::vector{Imbalance::none, Imbalance::multinomial, Imbalance::zipf});
  e.capacity_factor = any_of(random, std::vector{0.0, 0.0, 1.25});
  e.pad_to_capacity = e.capacity_factor > 0 && random() % 2 == 0;
  return fmt::format(" ep {} etp {} {} {} capacity {}{}", s.ep, s.etp, name_of(s.dispatch), name_of(e.imbalance),
                     e.capacity_factor, e.pad_to_capacity ? " padded" : "");
}

/// Uniform over the listed values of every setting; illegal combinations are drawn again.
inline Drawn draw(std::mt19937_64& random, const std::vector<std::string>& models) {
  static const std::vector<std::string> kMachines{"dgx_a100_80gb", "dgx_h100", "dgx1v"};
  for (;;) {
    Drawn d;
    StrategySettings& s = d.strategy;
    s.tp = any_of(random, std::vector{1, 2, 4, 8, 16});
    s.pp = any_of(random, std::vector{1, 2, 4, 8});
    s.virtual_stages = any_of(random, std::vector{1, 2, 3});
    s.dp = s.dp_replicate = any_of(random, std::vector{1, 2, 16});
    s.schedule = s.virtual_stages > 1 ? "interleaved_1f1b" : any_of(random, std::vector<std::string>{"1f1b", "gpipe"});
    s.zero_stage = static_cast<int>(random() % 2);
    s.microbatch = any_of(random, std::vector{1, 2, 4});
    s.sequence_parallel = random() % 2 == 0;
    s.scatter_gather = random() % 4 == 0;
    s.recompute = any_of(random, std::vector{Recompute::none, Recompute::selective, Recompute::full});
    s.overlap.grad_reduce = random() % 2 == 0;
    s.overlap.param_gather = random() % 2 == 0;
    s.overlap.pp = random() % 4 != 0;
    s.bucket = Bytes{any_of(random, std::vector{5e6, 25e6, 400e6})};
    if (random() % 4 == 0) s.placement = {"tp", "pp", "dp"};
    const std::string model = any_of(random, models);
    const int m = any_of(random, std::vector{1, 2, 4, 8, 24, 64, 192});
    const int ranks = s.tp * s.pp * s.dp;
    const bool experts_exchange = &models == &kExperts;  // Every layer of every rank is played by itself.
    // More takes seconds each to play.
    if (ranks % 8 != 0 || static_cast<std::int64_t>(ranks) * m > (experts_exchange ? 768 : 16384)) continue;
    const std::string machine = any_of(random, kMachines);
    d.workload.network = network(model);
    const std::string experts = d.workload.network.routing() != nullptr ? draw_experts(random, d) : "";
    d.workload.training.global_batch = m * s.microbatch * s.dp;
    d.workload.training.sequence_length = std::min<std::int64_t>(d.workload.network.max_sequence_length, 2048);
    d.workload.kernels.attention = random() % 2 == 0 ? AttentionKernel::flash : AttentionKernel::unfused;
    if (s.pp > 1 && s.bucket == Bytes{25e6}) s.deferred_head_gradients = s.microbatch == 2 ? m + 5 : (m + 1) / 2;
    d.site = &site({machine, ranks / 8, machine == "dgx_h100" ? "rail_ndr" : machine == "dgx1v" ? "ib_edr" : "selene"});
    d.name =
        fmt::format(
            "{} on {} {}: {} tp {} pp {} v {} dp {} m {} x {} zero {} {}{}overlap {}{}{} recompute {} bucket {:.0f} "
            "MB{}",
            model, ranks, machine, s.schedule, s.tp, s.pp, s.virtual_stages, s.dp, m, s.microbatch, s.zero_stage,
            s.sequence_parallel ? "sp " : "",
            s.scatter_gather                ? "scatter "
            : s.deferred_head_gradients > 0 ? "deferred "
                                            : "",
            s.overlap.grad_reduce ? "grad " : "", s.overlap.param_gather ? "gather " : "", s.overlap.pp ? "pp" : "",
            name_of(s.recompute), s.bucket.value() / 1e6, s.placement.size() == 3 ? " pp inside" : "") +
        experts;
    try {
      (void)lower(d.workload, s, ranks);
    } catch (const Error&) {
      continue;
    }
    return d;
  }
}

/// Networks over images in replicas, stages and tiles.
inline Drawn draw_images(std::mt19937_64& random) {
  static const std::vector<std::string> kModels{"alexnet", "vgg16", "resnet50", "unet", "inception_v3", "mlp"};
  for (;;) {
    Drawn d;
    StrategySettings& s = d.strategy;
    s.pp = any_of(random, std::vector{1, 1, 2, 4});
    s.dp = s.dp_replicate = any_of(random, std::vector{1, 2, 4, 8});
    s.tile_h = any_of(random, std::vector{1, 1, 2, 4});
    s.tile_w = any_of(random, std::vector{1, 1, 2});
    s.schedule = any_of(random, std::vector<std::string>{"1f1b", "gpipe"});
    s.microbatch = any_of(random, std::vector{1, 4, 16});
    s.recompute = any_of(random, std::vector{Recompute::none, Recompute::full});
    s.overlap.grad_reduce = random() % 2 == 0;
    s.placement = any_of(random, std::vector<std::vector<std::string>>{{"tile_h", "tile_w", "dp", "pp"},
                                                                       {"dp", "tile_w", "tile_h", "pp"}});
    const int m = any_of(random, std::vector{1, 2, 8});
    const int ranks = s.pp * s.dp * s.tile_h * s.tile_w;
    if (ranks % 8 != 0 || ranks > 64) continue;
    const std::string model = any_of(random, kModels),
                      machine = any_of(random, std::vector<std::string>{"dgx1v", "dgx_a100_80gb"});
    d.workload.network = network(model);
    d.workload.training.global_batch = m * s.microbatch * s.dp;
    d.workload.training.precision = any_of(random, std::vector{Precision::fp32, Precision::fp16_mixed});
    d.workload.training.statistics = any_of(random, std::vector{StatisticsScope::local, StatisticsScope::global});
    d.site = &site({machine, ranks / 8, machine == "dgx1v" ? "ib_edr" : "selene"});
    d.name = fmt::format("{} on {} {}: {} pp {} dp {} tiles {}x{} m {} x {} recompute {} {}{} statistics", model, ranks,
                         machine, s.schedule, s.pp, s.dp, s.tile_h, s.tile_w, m, s.microbatch, name_of(s.recompute),
                         s.overlap.grad_reduce ? "overlap " : "", name_of(d.workload.training.statistics));
    try {
      (void)lower(d.workload, s, ranks);
    } catch (const Error&) {
      continue;
    }
    return d;
  }
}

/// A drawn job with its state sharded in one of the ways there are.
inline Drawn draw_sharded(std::mt19937_64& random) {
  for (;;) {
    Drawn d = draw(random, kDense);
    StrategySettings& s = d.strategy;
    if (s.dp == 1 || static_cast<std::int64_t>(d.site->cluster.device_count()) * d.workload.training.global_batch /
                             (s.dp * s.microbatch) >
                         2048)
      continue;
    s.zero_stage = static_cast<int>(random() % 4);
    s.grad_sync = any_of(random, std::vector{GradientSync::automatic, GradientSync::last, GradientSync::every});
    if (s.zero_stage == 0) {
      s.fsdp.enabled = random() % 4 != 0;
      s.dp_shard = s.fsdp.enabled ? s.dp / static_cast<int>(1 + random() % 2) : 1;
      s.dp_replicate = s.dp / s.dp_shard;
      s.fsdp.reshard_after_forward = any_of(random, std::vector{Reshard::automatic, Reshard::always, Reshard::never});
      s.fsdp.prefetch_forward = s.fsdp.prefetch_backward = static_cast<int>(random() % 3);
      s.fsdp.limit_all_gathers = random() % 4 != 0;
    }
    d.name += fmt::format(" zero {} fsdp {} {} x {} prefetch {} sync {}", s.zero_stage, s.fsdp.enabled, s.dp_shard,
                          s.dp_replicate, s.fsdp.prefetch_forward, name_of(s.grad_sync));
    try {
      (void)lower(d.workload, s, d.site->cluster);
    } catch (const Error&) {
      continue;
    }
    return d;
  }
}

/// A drawn job some of whose replicas share their sequences, or whose tensor-parallel communication is in pieces.
inline Drawn draw_context(std::mt19937_64& random) {
  for (;;) {
    Drawn d = draw(random, kDense);
    StrategySettings& s = d.strategy;
    s.cp = any_of(random, std::vector{1, 2, 4, 16});
    s.overlap.tp = s.sequence_parallel && s.tp > 1 && random() % 4 != 0;
    if (s.dp % s.cp != 0 || (s.cp == 1 && !s.overlap.tp)) continue;
    // Hops between nodes are played one by one.
    if (static_cast<std::int64_t>(d.site->cluster.device_count()) * d.workload.training.global_batch /
            (s.dp * s.microbatch) >
        512)
      continue;
    s.dp = s.dp_replicate = s.dp / s.cp;
    s.context =
        any_of(random, std::vector{ContextExchange::ring, ContextExchange::ulysses, ContextExchange::allgather});
    s.placement = {"tp", "cp", "dp", "pp"};
    d.workload.training.global_batch /= s.cp;
    d.workload.kernels.attention = AttentionKernel::flash;
    d.name += fmt::format(" cp {} {}{}", s.cp, name_of(s.context), s.overlap.tp ? " tp in pieces" : "");
    try {
      (void)lower(d.workload, s, d.site->cluster);
    } catch (const Error&) {
      continue;
    }
    return d;
  }
}

inline Drawn dense(std::mt19937_64& random) { return draw(random, kDense); }
inline Drawn experts(std::mt19937_64& random) { return draw(random, kExperts); }

/// REHEARSE_DRAWS explores further.
inline int draws(int otherwise) {
  const char* text = std::getenv("REHEARSE_DRAWS");
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace rehearse::test
