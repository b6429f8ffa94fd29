#pragma once
// For headers that take settings by reference: a new setting does not compile again what only includes those.

namespace rehearse {

struct TrainingSettings;
struct StrategySettings;
struct KernelSettings;
struct InputSettings;
struct LoraSettings;

}  // namespace rehearse
