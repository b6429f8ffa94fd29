// The table: one row per key of a scenario file, section by section.

#include "core/config/schema/rows.hpp"

namespace rehearse::schema {
namespace {

std::vector<Field> build() {
  std::vector<Field> t;
  add_head(t);
  add_framework(t);
  add_training(t);
  add_strategy(t);
  add_kernels(t);
  add_input(t);
  t.push_back(row("calibration", at(&Scenario::calibration), "Calibration profile, by name or path.")
                  .like("profiles/my_h100.json")
                  .more("Left out, the profile that belongs to the cluster's GPU is taken."));
  t.push_back(row("collective_table", at(&Scenario::collective_table), "Measured times of collectives, by path.")
                  .like("tables/our_pods.json")
                  .more("They go before the model's where they speak of a call's operation, ranks and nodes "
                        "(core/collective/README.md).")
                  .seldom());
  add_declared(t);
  return t;
}

}  // namespace

const std::vector<Field>& fields() {
  static const std::vector<Field> table = build();
  return table;
}

const std::vector<Group>& groups() {
  static const std::vector<Group> table{
      {"framework", "The software that trains, and what it does."},
      {"training", "What one step and the whole run train."},
      {"training.experts", "How many tokens each expert takes."},
      {"training.fp8", "Products in fp8, for precision fp8_mixed."},
      {"training.adafactor", "The Adafactor update."},
      {"training.discriminator", "The discriminator's update, in networks that have one."},
      {"training.lora", "Low-rank adapters, trained in place of the model's weights."},
      {"strategy", "How the work is split over the GPUs."},
      {"strategy.fsdp", "Fully sharded data parallelism."},
      {"strategy.zero3", "ZeRO stage 3."},
      {"strategy.overlap", "Which communication runs beside computation."},
      {"kernels", "Which kernels the framework uses."},
      {"input", "Where samples come from."}};
  return table;
}

}  // namespace rehearse::schema
