#include "core/strategy/shares.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

int replica_of(const ExprContext& at, const StrategySettings& settings) {
  return nth(at.coord, Axis::dp_replicate) * settings.dp_shard + nth(at.coord, Axis::dp_shard);
}

void check_layers(const Network& network, const StrategySettings& settings) {
  const auto& given = settings.layers_per_stage;
  const std::int64_t sum = std::accumulate(given.begin(), given.end(), std::int64_t{0});
  const int chunks = settings.pp * settings.virtual_stages;
  if (static_cast<int>(given.size()) != chunks)
    throw Error(ErrorKind::usage,
                fmt::format("layers_per_stage has {} numbers for pp({}) * virtual_stages({}) = {} chunks", given.size(),
                            settings.pp, settings.virtual_stages, chunks),
                "strategy.layers_per_stage", "give one number for each chunk, in the order of the model");
  if (sum != network.layers())
    throw Error(ErrorKind::usage,
                fmt::format("layers_per_stage: {} = {} != {} layers", fmt::join(given, " + "), sum, network.layers()),
                "strategy.layers_per_stage", "the numbers add up to the model's layers");
}

namespace {

[[noreturn]] void refuse(const std::string& why, const std::string& hint) {
  throw Error(ErrorKind::usage, why, "strategy.batch_per_replica", hint);
}

/// Replicas with unequal numbers of microbatches meet once a step only.
void check_meetings(const StrategySettings& s, const Workload& w) {
  const std::string once = "replicas with unequal batches have unequal numbers of microbatches and meet once a step: ";
  if (s.zero_stage >= 2 || s.fsdp.enabled)
    refuse(once + "sharded gradients or parameters are exchanged in every one",
           "set strategy.zero_stage to 0 or 1 and strategy.fsdp.enabled to false, or leave batch_per_replica out");
  if (s.grad_sync == GradientSync::every)
    refuse(once + "grad_sync 'every' reduces gradients in every one", "set strategy.grad_sync to last");
  if (s.data_parallel != DataParallelism::replicas)
    refuse(once + fmt::format("a {} exchanges samples or parameters in every one", name_of(s.data_parallel)),
           "set strategy.data_parallel to replicas");
  if (s.ep * s.etp > 1)
    refuse(once + fmt::format("ep({}) * etp({}) exchange rows between ranks of several replicas in every one", s.ep,
                              s.etp),
           "set strategy.ep and strategy.etp to 1");
  if (w.training.statistics == StatisticsScope::global)
    refuse(once + "global statistics are taken over replicas in every one", "set training.statistics to local");
}

}  // namespace

std::vector<int> microbatches_per_replica(const StrategySettings& s, const Workload& workload, int mean) {
  std::vector<int> out(static_cast<std::size_t>(s.dp), mean);
  const auto& given = s.batch_per_replica;
  if (given.empty()) return out;
  const std::int64_t sum = std::accumulate(given.begin(), given.end(), std::int64_t{0});
  if (given.size() != out.size())
    refuse(fmt::format("batch_per_replica has {} numbers for dp({}) replicas", given.size(), s.dp),
           "give one number for each replica");
  if (sum != workload.training.global_batch)
    refuse(fmt::format("batch_per_replica: {} = {} != global_batch({})", fmt::join(given, " + "), sum,
                       workload.training.global_batch),
           "the numbers add up to training.global_batch");
  for (std::size_t r = 0; r < out.size(); ++r) {
    if (given[r] % s.microbatch != 0)
      refuse(fmt::format("batch_per_replica: {} % microbatch({}) = {} != 0", given[r], s.microbatch,
                         given[r] % s.microbatch),
             "give multiples of strategy.microbatch");
    out[r] = static_cast<int>(given[r] / s.microbatch);
  }
  if (std::any_of(out.begin(), out.end(), [&](int m) { return m != mean; })) check_meetings(s, workload);
  return out;
}

ExprId first_samples(ProgramFrame& frame, const std::vector<int>& microbatches, const StrategySettings& settings) {
  ExprPool& e = frame.program.exprs;
  const int most = *std::max_element(microbatches.begin(), microbatches.end());
  const ExprId microbatch = e.variable(Var::microbatch);
  if (std::all_of(microbatches.begin(), microbatches.end(), [most](int m) { return m == most; }))
    return frame.mul(microbatch, frame.constant(settings.microbatch * settings.dp));
  // Microbatch by microbatch, replica by replica of those that have so many. A rank's rows lie its replica's number of
  // rows behind the first.
  std::vector<std::int64_t> first(microbatches.size() * static_cast<std::size_t>(most), 0);
  std::int64_t next = 0;
  for (int k = 0; k < most; ++k)
    for (std::size_t r = 0; r < microbatches.size(); ++r)
      if (k < microbatches[r])
        first[r * static_cast<std::size_t>(most) + static_cast<std::size_t>(k)] =
            (next++ - static_cast<std::int64_t>(r)) * settings.microbatch;
  frame.program.tables.push_back(std::move(first));
  const ExprId replica =
      e.apply(ExprOp::add, frame.mul(e.coord(Axis::dp_replicate), e.extent(Axis::dp_shard)), e.coord(Axis::dp_shard));
  const ExprId at = e.apply(ExprOp::add, frame.mul(replica, e.constant(most)), microbatch);
  return e.apply(ExprOp::lookup, e.constant(static_cast<std::int64_t>(frame.program.tables.size()) - 1), at);
}

}  // namespace rehearse
