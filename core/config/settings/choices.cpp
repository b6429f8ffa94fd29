#include "core/config/settings/choices.hpp"

namespace rehearse {

template <>
const std::vector<std::string>& names_of<Precision>() {
  static const std::vector<std::string> names{"fp32",       "tf32",      "bf16",     "fp16_mixed",
                                              "bf16_mixed", "fp8_mixed", "fp4_mixed"};
  return names;
}
template <>
const std::vector<std::string>& names_of<Fp8Recipe>() {
  static const std::vector<std::string> names{"delayed", "tensorwise", "rowwise", "blockwise", "mxfp8"};
  return names;
}
template <>
const std::vector<std::string>& names_of<RecomputeMethod>() {
  static const std::vector<std::string> names{"uniform", "block"};
  return names;
}
template <>
const std::vector<std::string>& names_of<Fp8Copies>() {
  static const std::vector<std::string> names{"auto", "two", "one"};
  return names;
}
template <>
const std::vector<std::string>& names_of<Recompute>() {
  static const std::vector<std::string> names{"none", "selective", "full"};
  return names;
}
template <>
const std::vector<std::string>& names_of<AttentionKernel>() {
  static const std::vector<std::string> names{"unfused", "flash"};
  return names;
}
template <>
const std::vector<std::string>& names_of<FlashKernel>() {
  static const std::vector<std::string> names{"auto",   "flash_triton", "flash1", "flash2",
                                              "flash3", "cudnn_9.13",   "cudnn"};
  return names;
}
template <>
const std::vector<std::string>& names_of<HostCode>() {
  static const std::vector<std::string> names{"eager", "megatron", "megatron_deepspeed"};
  return names;
}
template <>
const std::vector<std::string>& names_of<ProductCalls>() {
  static const std::vector<std::string> names{"transformer_engine", "pytorch"};
  return names;
}
template <>
const std::vector<std::string>& names_of<GradientDtype>() {
  static const std::vector<std::string> names{"fp32", "model"};
  return names;
}
template <>
const std::vector<std::string>& names_of<Optimizer>() {
  static const std::vector<std::string> names{"sgd", "adam", "adamw", "adafactor", "lamb"};
  return names;
}
template <>
const std::vector<std::string>& names_of<OwnOptimizer>() {
  static const std::vector<std::string> names{"same", "sgd", "adam", "adamw", "adafactor", "lamb"};
  return names;
}
template <>
const std::vector<std::string>& names_of<StatisticsScope>() {
  static const std::vector<std::string> names{"local", "global"};
  return names;
}
template <>
const std::vector<std::string>& names_of<Offload>() {
  static const std::vector<std::string> names{"none", "optimizer", "activations", "all"};
  return names;
}
template <>
const std::vector<std::string>& names_of<DataParallelism>() {
  static const std::vector<std::string> names{"replicas", "funnel", "parameter_server"};
  return names;
}
template <>
const std::vector<std::string>& names_of<GradientSync>() {
  static const std::vector<std::string> names{"auto", "last", "every"};
  return names;
}
template <>
const std::vector<std::string>& names_of<Balance>() {
  static const std::vector<std::string> names{"none", "layers", "batch", "auto"};
  return names;
}
template <>
const std::vector<std::string>& names_of<Reshard>() {
  static const std::vector<std::string> names{"auto", "always", "never"};
  return names;
}
template <>
const std::vector<std::string>& names_of<CheckpointStyle>() {
  static const std::vector<std::string> names{"megatron", "pytorch"};
  return names;
}
template <>
const std::vector<std::string>& names_of<Imbalance>() {
  static const std::vector<std::string> names{"none", "multinomial", "zipf"};
  return names;
}
template <>
const std::vector<std::string>& names_of<ContextExchange>() {
  static const std::vector<std::string> names{"ring", "ulysses", "allgather"};
  return names;
}
template <>
const std::vector<std::string>& names_of<Dispatch>() {
  static const std::vector<std::string> names{"all_to_all", "hierarchical"};
  return names;
}

}  // namespace rehearse
