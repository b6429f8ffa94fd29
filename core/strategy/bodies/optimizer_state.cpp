#include "core/strategy/bodies/optimizer_state.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"
#include "core/config/settings/strategy.hpp"

namespace rehearse {

namespace {

const SettingKey<std::string> kStates = declare_key(
    "training.optimizer_states", std::string("auto"), "Type of Adam's and SGD's moments.",
    {.choices = {"auto", "fp32", "bf16", "fp16", "fp8", "int8"},
     .detail = "auto: fp32, but bf16 where training.precision is bf16. int8: 8-bit optimizers, as bitsandbytes' and "
               "torchao's, with a scale for every framework.state_block elements; tensors of fewer than 4,096 elements "
               "stay in fp32. fp8: with the same scales. Types of 16 bits and less beside master weights: Megatron's "
               "precision-aware optimizer. adafactor and lamb keep fp32.",
     .example = "int8",
     .flags = {}});

const SettingKey<std::string> kMaster = declare_key(
    "training.master_weights", std::string("fp32"), "How mixed precision keeps master weights.",
    {.choices = {"fp32", "fp16", "remainder"},
     .detail = "remainder: the low 16 bits of fp32 beside bf16 weights, which are the high ones (Megatron Core's "
               "store_param_remainders, on with its precision-aware optimizer). fp16: as --main-params-dtype fp16.",
     .example = "remainder"});

const SettingKey<std::int64_t> kBlock =
    declare_key("framework.state_block", std::int64_t{256}, "Elements of 8-bit optimizer states that share a scale.",
                {.least = 0, .detail = "0: a tensor has one scale, which is not counted.", .example = "2048"});

const SettingKey<bool> kEmbeddings =
    declare_key("framework.embedding_states_fp32", false, "8-bit optimizers keep the moments of embeddings in fp32.",
                {.detail = "As Hugging Face's Trainer asks of bitsandbytes."});

/// Smaller tensors are not quantised: bitsandbytes' min_8bit_size and torchao's _new_buffer.
constexpr std::int64_t kLeastQuantised = 4096;

bool keeps_fp32(Optimizer rule) { return rule == Optimizer::adafactor || rule == Optimizer::lamb; }

DType wanted(const Workload& w, const ProgramFrame& frame) {
  const std::string states = kStates(w.training);
  if (keeps_fp32(w.training.optimizer)) return DType::fp32;
  if (states == "auto")
    return frame.mixed || size_of(frame.activation_dtype) >= 4 ? DType::fp32 : frame.activation_dtype;
  return states == "int8" ? DType::uint8 : parse_dtype(states);
}

}  // namespace

MomentStorage moment_storage(const Workload& w, const ProgramFrame& frame, std::int64_t elements, bool embedding) {
  const DType dtype = wanted(w, frame);
  if (size_of(dtype) > 1) return {dtype, 0};
  if (elements < kLeastQuantised || (embedding && kEmbeddings(w.kernels))) return {};
  return {dtype, kBlock(w.kernels)};
}

DType master_dtype(const Workload& w) { return kMaster(w.training) == "fp32" ? DType::fp32 : DType::fp16; }

Tensor scales_of(ProgramFrame& frame, Tensor moment, std::int64_t block) {
  moment.name += ".scales";
  moment.part = "scales.";
  moment.dtype = DType::fp32;
  moment.segments.clear();
  ExprId& last = moment.shape.back();
  const ExprId blocks = frame.constant(block);
  ExprPool& e = frame.program.exprs;
  last = e.apply(ExprOp::div, e.apply(ExprOp::sub, e.apply(ExprOp::add, last, blocks), ExprPool::kOne), blocks);
  return moment;
}

void check_optimizer_state(const Workload& w, const StrategySettings& s) {
  const TrainingSettings& t = w.training;
  if (kStates(t) != "auto" && kStates(t) != "fp32" && keeps_fp32(t.optimizer))
    throw Error(ErrorKind::usage, fmt::format("{} keeps its statistics in fp32", name_of(t.optimizer)), kStates.name(),
                "set training.optimizer_states to auto, or training.optimizer to adam, adamw or sgd");
  if (kMaster(t) == "fp32") return;
  if (kMaster(t) == "remainder" && t.precision == Precision::fp16_mixed)
    throw Error(ErrorKind::usage, "fp16 weights are no part of an fp32 number, whose remainder could be kept",
                kMaster.name(), "set training.master_weights to fp32 or fp16, or training.precision to bf16_mixed");
  if (s.fsdp.enabled)
    throw Error(ErrorKind::usage, "fully sharded units are gathered from fp32 master weights", kMaster.name(),
                "set training.master_weights to fp32, or strategy.zero_stage instead of strategy.fsdp.enabled");
}

std::string optimizer_state_gap(const Workload& w) {
  const bool mixed = w.training.precision != Precision::bf16;
  const std::string states = kStates(w.training);
  if (states == "fp8" || states == "int8") return fmt::format("no kernel updates moments in {}", states);
  if (states != "auto" && states != (mixed ? "fp32" : "bf16"))
    return fmt::format("kernels update moments in {}", mixed ? "fp32" : "bf16");
  return kMaster(w.training) == "fp32" ? "" : "kernels update fp32 master weights";
}

}  // namespace rehearse
