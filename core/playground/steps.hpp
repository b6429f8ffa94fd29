#pragma once
// What happens one step after the other: a ring all-reduce, a pipeline, the exchange between experts. Each as JSON for
// the page to show; `request` holds the sizes, all of them whole numbers. Throws Error (usage) for sizes that the page
// does not offer, and for pipelines that a schedule cannot run.

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace rehearse::playground {

/// {"ranks": 2..16} to {ranks, steps, sends[{step, from, to, piece, adds}], held[step][rank][piece]}: whose parts each
/// rank's piece is the sum of after that many steps, as a list of ranks.
[[nodiscard]] std::string ring_json(const nlohmann::ordered_json& request);

/// {"schedule", "stages": 1..16, "chunks" of a stage: 1..4, "microbatches": 1..64} to {schedule, about, stages, chunks,
/// microbatches, end, work, bubble_ratio, passes[{stage, pass, chunk, microbatch, begin, end}]}. A forward pass of one
/// chunk takes 1, a backward pass 2; `work` is what each stage computes, and bubble_ratio what it waits over that, as
/// the schedule's formula has it.
[[nodiscard]] std::string pipeline_json(const nlohmann::ordered_json& request);

/// {"ranks": 2..16, "experts": a multiple of them up to 256, "chosen": 1..experts, "tokens": 1.. of a rank,
/// "imbalance": as training.experts.imbalance} to {ranks, experts, chosen, tokens, imbalance, arrive[rank],
/// rounds[[{from, to, rows}]]}. In round r each rank sends to the one r places on; what it keeps is round 0. Rows are
/// averages (core/strategy/operators/expert_plan.hpp), the fullest rank is the first.
[[nodiscard]] std::string exchange_json(const nlohmann::ordered_json& request);

}  // namespace rehearse::playground
