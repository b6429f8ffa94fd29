// Operators of experts give what the CPU's give in fp64, in each type: choices, rows in expert order, their products.
#include "tests/gpu/against_cpu.hpp"
#include "tests/support/skip.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

#define ON_A_DEVICE() \
  if (const auto none = no_device()) REHEARSE_SKIP(*none)

constexpr std::int64_t kTokens = 10, kExperts = 8, kChosen = 2;

ComputeTask with_cuda_experts(ComputeOp op, const char* variant, std::vector<double> scalars) {
  ComputeTask t = task_of(op, variant);
  t.scalars = std::move(scalars);
  return t;
}
/// Two different experts of each token; nobody chooses the first, nor the last where there are many tokens.
OperandSlot choice(std::int64_t tokens = kTokens) {
  std::vector<double> values;
  const std::int64_t open = tokens > kTokens ? kExperts - 2 : kExperts - 1;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto first =
        static_cast<std::int64_t>(RandomKey(3).bits(static_cast<std::uint64_t>(t)) % static_cast<std::uint64_t>(open));
    values.push_back(static_cast<double>(first + 1));
    values.push_back(static_cast<double>((first + 1 + t % (open - 1)) % open + 1));
  }
  return given(in({2, tokens / 2, kChosen}, Holds::integers), values);
}

}  // namespace

TEST_CASE("the best experts of each token, their weights and the losses that keep them even") {
  ON_A_DEVICE();
  for (const char* variant : {"softmax", "sigmoid"})
    for (const double normalised : {0.0, 1.0}) {
      const std::vector<double> scalars{2.5, 1e-2, 1e-3, normalised};
      const std::vector<std::int64_t> dims{kTokens, kExperts, kChosen, 4, normalised != 0 ? 2 : 4, kTokens, 2, 1};
      check_all_types({with_cuda_experts(ComputeOp::route, variant, scalars),
                       {in({2, 5, kExperts}), out({2, 5, kChosen}), out({2, 5, kChosen}, Holds::integers),
                        out({kExperts}, Holds::sums)},
                       dims});
      check_all_types(
          {with_cuda_experts(ComputeOp::route_grad, variant, scalars),
           {in({2, 5, kChosen}), in({2, 5, kExperts}), choice(), out({2, 5, kExperts}), in({kExperts}, Holds::sums)},
           dims});
    }
}

TEST_CASE("scores that are not numbers choose experts that there are") {
  ON_A_DEVICE();
  std::vector<double> scores(kTokens * kExperts, std::nan(""));
  for (std::size_t e = 0; e < kExperts; ++e) scores[e] = static_cast<double>(e);  // One token of numbers.
  const std::vector<double> scalars{1, 1e-2, 1e-3, 1};
  for (const std::int64_t groups : {1, 4}) {
    const Result got = on_device({with_cuda_experts(ComputeOp::route, "softmax", scalars),
                                  {given(in({2, 5, kExperts}), scores), out({2, 5, kChosen}),
                                   out({2, 5, kChosen}, Holds::integers), out({kExperts}, Holds::sums)},
                                  {kTokens, kExperts, kChosen, groups, groups, kTokens, 2, 1}},
                                 ElementType::real32);
    for (const double expert : got.values[2]) CHECK((expert >= 0 && expert < kExperts));
    CHECK(got.values[2][0] == kExperts - 1);
  }
}

TEST_CASE("rows in expert order, dropped beyond a capacity, and back") {
  ON_A_DEVICE();
  for (const double capacity : {0.0, 3.0}) {
    const std::int64_t rows = capacity > 0 ? kExperts * 3 : kTokens * kChosen;
    const std::vector<double> scalars{kExperts, capacity, capacity > 0 ? 1.0 : 0.0};
    check_all_types({with_cuda_experts(ComputeOp::permute, "permute", scalars),
                     {in({2, 5, 12}), in({2, 5, kChosen}), out({rows, 12}), out({rows}), choice()}});
    check_all_types({with_cuda_experts(ComputeOp::permute_grad, "permute_grad", scalars),
                     {in({rows, 12}), in({rows}), out({2, 5, 12}), out({2, 5, kChosen}), choice()}});
    check_all_types(
        {with_cuda_experts(ComputeOp::unpermute, "unpermute", scalars), {in({rows, 12}), out({2, 5, 12}), choice()}});
    check_all_types({with_cuda_experts(ComputeOp::permute_grad, "unpermute_grad", scalars),
                     {in({2, 5, 12}), out({rows, 12}), choice()}});
  }
  check_all_types(
      {with_cuda_experts(ComputeOp::histogram, "per_expert", {0}), {choice(), out({kExperts}, Holds::integers)}});
  check_all_types({task_of(ComputeOp::histogram, "sum"),
                   {given(in({kExperts}, Holds::integers), whole_numbers(kExperts, 7, 2)), out({1}, Holds::integers)}});
}

TEST_CASE("many choices, which are sorted: rows in expert order and back, dropped beyond a capacity, counted") {
  ON_A_DEVICE();
  constexpr std::int64_t kMany = 2100;
  // None; buffers that are filled up; buffers that begin where the rows before end, of which some are dropped.
  for (const auto& [capacity, padded] : {std::pair{0.0, 0.0}, {300.0, 1.0}, {500.0, 0.0}}) {
    INFO("capacity " << capacity);
    const std::int64_t rows = padded != 0 ? kExperts * 300 : kMany * kChosen;
    const std::vector<double> scalars{kExperts, capacity, padded};
    // What a capacity drops leaves room at the end of buffers that are not filled up.
    const OperandSlot to = capacity > 0 && padded == 0 ? inout({rows, 8}) : out({rows, 8});
    const OperandSlot numbers = capacity > 0 && padded == 0 ? inout({rows}) : out({rows});
    check_against_cpu({with_cuda_experts(ComputeOp::permute, "permute", scalars),
                       {in({2, kMany / 2, 8}), in({2, kMany / 2, kChosen}), to, numbers, choice(kMany)}},
                      ElementType::real32);
    check_against_cpu(
        {with_cuda_experts(ComputeOp::permute_grad, "permute_grad", scalars),
         {in({rows, 8}), in({rows}), out({2, kMany / 2, 8}), out({2, kMany / 2, kChosen}), choice(kMany)}},
        ElementType::real32);
  }
  for (const double most : {0.0, 700.0})
    check_against_cpu({with_cuda_experts(ComputeOp::histogram, "per_expert", {most}),
                       {choice(kMany), out({kExperts}, Holds::integers)}},
                      ElementType::real32);
  check_against_cpu({with_cuda_experts(ComputeOp::route, "softmax", {1, 1e-2, 1e-3, 1}),
                     {in({2, kMany / 2, kExperts}), out({2, kMany / 2, kChosen}),
                      out({2, kMany / 2, kChosen}, Holds::integers), out({kExperts}, Holds::sums)},
                     {kMany, kExperts, kChosen, 1, 1, kMany, 1, 1}},
                    ElementType::real32);
}

TEST_CASE("rows by peer and by expert, in equal parts and as counts say") {
  ON_A_DEVICE();
  check_all_types(
      {with_cuda_experts(ComputeOp::permute, "sort", {2, 3, 4}), {in({24, 6}), out({24, 6}), in({24}), out({24})}});
  check_all_types({with_cuda_experts(ComputeOp::permute, "unsort", {2, 3, 4}), {in({24, 6}), out({24, 6})}});
  ComputeTask counted = with_cuda_experts(ComputeOp::permute, "sort", {2, 3, 0});
  counted.group_sizes = 2;
  check_all_types({counted, {in({21, 6}), out({21, 6}), given(in({6}, Holds::integers), {5, 0, 3, 7, 2, 4})}});
}

TEST_CASE("every row by its expert's weight, in equal parts and as counts say") {
  ON_A_DEVICE();
  for (const bool counts : {false, true}) {
    const auto task = [&](const char* variant) {
      ComputeTask t = with_cuda_experts(ComputeOp::grouped_matmul, variant, {1});
      t.group_sizes = counts ? 4 : -1;
      t.accumulates = std::string(variant) == "linear_weight_grad";
      return t;
    };
    const auto counted = [&](std::vector<OperandSlot> slots) {
      if (counts) slots.push_back(given(in({3}, Holds::integers), {4, 0, 8}));
      return slots;
    };
    check_all_types({task("linear"), counted({in({12, 8}), in({3, 16, 8}), out({12, 8}), out({12, 8})})});
    check_all_types({task("linear_input_grad"), counted({in({3, 16, 8}), out({12, 8}), in({12, 8}), in({12, 8})})});
    check_all_types(
        {task("linear_weight_grad"), counted({in({12, 8}), inout({3, 16, 8}, Holds::sums), in({12, 8}), in({12, 8})})});
  }
}

TEST_CASE("products of experts that lie in slices, some of them as long as their neighbours") {
  ON_A_DEVICE();
  ComputeTask weight = with_cuda_experts(ComputeOp::grouped_matmul, "linear_weight_grad", {2});
  weight.group_sizes = 3, weight.accumulates = true;
  // Two slices of four experts: 3, 3, 0, 5 and 2, 4, 4, 1 rows.
  const OperandSlot counts = given(in({8}, Holds::integers), {3, 3, 0, 5, 2, 4, 4, 1});
  check_all_types({weight, {in({24, 8}), inout({4, 16, 8}, Holds::sums), in({24, 16}), counts}});
  ComputeTask forward = with_cuda_experts(ComputeOp::grouped_matmul, "linear", {1});
  forward.group_sizes = 3;
  const OperandSlot one_slice = given(in({4}, Holds::integers), {3, 3, 0, 18});
  check_all_types({forward, {in({24, 8}), in({4, 16, 8}), out({24, 16}), one_slice}});
  // Rows of 6 elements: not at multiples of 16 bytes.
  check_all_types({forward, {in({24, 6}), in({4, 10, 6}), out({24, 10}), one_slice}});
}

TEST_CASE("weighted activations of rows, vectors after every head") {
  ON_A_DEVICE();
  check_all_types(
      {task_of(ComputeOp::activation, "weighted_silu_mul"), {in({9, 33}), in({9, 33}), in({9}), out({9, 33})}});
  check_all_types({task_of(ComputeOp::activation_grad, "weighted_silu_mul"),
                   {in({9, 33}), in({9, 33}), in({9, 33}), in({9}), out({9, 33}), out({9, 33}), out({9})}});
  check_all_types({task_of(ComputeOp::copy, "append"), {in({2, 5, 3, 6}), in({2, 5, 4}), out({2, 5, 3, 10})}});
  check_all_types({task_of(ComputeOp::add, "append_grad"), {in({2, 5, 3, 10}), out({2, 5, 3, 6}), out({2, 5, 4})}});
}
