// What the CUDA back end decides on the host: needs no GPU and no CUDA.
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "core/base/index.hpp"
#include "gpu_backend/communicate/share_gpu.hpp"
#include "gpu_backend/communicate/split_plan.hpp"
#include "gpu_backend/cuda/cuda_environment.hpp"
#include "gpu_backend/execute/out_of_memory.hpp"
#include "gpu_backend/execute/random.hpp"
#include "gpu_backend/train/initial.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

TEST_CASE("communicators: every rank makes the same calls, each with groups that share no rank") {
  // Two tensor-parallel pairs, two data-parallel pairs, and a ring of messages, as four ranks ask for them in orders of
  // their own.
  const Wanted tp01{"tp", {0, 1}}, tp23{"tp", {2, 3}}, dp02{"dp", {0, 2}}, dp13{"dp", {1, 3}}, up{"pp", {0, 2}},
      down{"pp", {2, 0}};
  const auto rounds = rounds_of({{up, tp01, dp02, down}, {dp13, tp01}, {down, up, dp02, tp23}, {tp23, dp13}});
  std::multiset<Wanted> made;
  for (const auto& round : rounds) {
    std::set<int> busy;
    for (const Wanted& w : round) {
      made.insert(w);
      for (const int m : w.members) CHECK(busy.insert(m).second);
    }
  }
  CHECK(made == std::multiset<Wanted>{tp01, tp23, dp02, dp13, up, down});
  CHECK(rounds.size() == 4);  // dp together, tp together, and the two channels of one pair one after the other.
}

TEST_CASE("the order in which ranks ask for communicators does not matter") {
  const Wanted a{"tp", {0, 1}}, b{"dp", {1, 2}}, c{"cp", {2, 3}};
  CHECK(rounds_of({{a}, {a, b}, {b, c}, {c}}) == rounds_of({{a}, {b, a}, {c, b}, {c}}));
}

TEST_CASE("wishes survive the rendezvous, whatever their names hold") {
  const std::vector<Wanted> wanted{
      {"dp_replicate#0@compute", {0, 4, 8}}, {"a name with spaces\nand lines", {3, 1}}, {"", {0}}};
  CHECK(wanted_from(to_text(wanted)) == wanted);
  CHECK(wanted_from("").empty());
}

TEST_CASE("ranks that share a GPU are hosts of their own to NCCL, and talk through this machine") {
  const auto first = share_gpu_environment(0), second = share_gpu_environment(1);
  std::map<std::string, std::string> a(first.begin(), first.end()), b(second.begin(), second.end());
  CHECK(a.at("NCCL_HOSTID") != b.at("NCCL_HOSTID"));
  CHECK(a.at("NCCL_SOCKET_IFNAME") == "lo");
  a.erase("NCCL_HOSTID"), b.erase("NCCL_HOSTID");
  CHECK(a == b);
}

TEST_CASE("a variable of NCCL's that the user has set stays") {
  ::setenv("NCCL_MAX_NCHANNELS", "8", 1);
  share_gpu(3);
  CHECK(std::string(std::getenv("NCCL_MAX_NCHANNELS")) == "8");
  CHECK(std::string(std::getenv("NCCL_HOSTID")) == "sim-r3");
}

TEST_CASE("several ranks load kernels at the start and give streams queues of their own; a rank alone sets nothing") {
  CHECK(cuda_environment(1).empty());
  ::unsetenv("CUDA_MODULE_LOADING");
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  CHECK(set_cuda_environment(2) == std::vector<std::string>{"CUDA_MODULE_LOADING=EAGER"});
  CHECK(std::string(std::getenv("CUDA_MODULE_LOADING")) == "EAGER");
  CHECK(std::string(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS")) == "1");
  CHECK(set_cuda_environment(2).empty());
}

TEST_CASE("initial values of a large tensor are handed out in parts, each where it lies") {
  Tensor tensor;
  tensor.name = "w", tensor.initial = "normal(0.5)";
  constexpr std::int64_t kRows = 3000, kColumns = 3000;  // More than one part.
  Held held;
  held.shape = held.extents = {kRows, kColumns};
  held.global = {{{0, kRows}}, {{0, kColumns}}};
  held.flat = {0, kRows * kColumns};
  std::size_t end = 0;
  int parts = 0;
  double squares = 0;
  const RandomKey key = RandomKey(1).with("initial").with("w");
  write_initial_values(tensor, held, 0, 1, ElementType::real64, [&](std::size_t at, std::span<const std::byte> bytes) {
    CHECK(at == end);
    std::vector<double> values(bytes.size() / sizeof(double));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    CHECK(values[1] == 0.5 * key.normal(at / sizeof(double) + 1));
    for (const double x : values) squares += x * x;
    end += bytes.size(), ++parts;
  });
  CHECK(parts > 1);
  CHECK(end == static_cast<std::size_t>(kRows * kColumns) * sizeof(double));
  CHECK(squares / (kRows * kColumns) == Approx(0.25).epsilon(0.01));
}

TEST_CASE("bfloat16 keeps eight bits of a number, ties to even") {
  CHECK(from_bfloat16(to_bfloat16(1.0f)) == 1.0f);
  CHECK(from_bfloat16(to_bfloat16(1.0f + 0x1p-8f)) == 1.0f);  // Half way: to the even one.
  CHECK(from_bfloat16(to_bfloat16(1.0f + 0x1.8p-7f)) == 1.0f + 0x1p-6f);
  CHECK(from_bfloat16(to_bfloat16(1.0f + 0x1.02p-8f)) == 1.0f + 0x1p-7f);
  CHECK(std::isinf(from_bfloat16(to_bfloat16(3.4e38f))));
  CHECK(std::isnan(from_bfloat16(to_bfloat16(NAN))));
  for (std::uint32_t x = 0; x < 0x7f80u; x += 7) CHECK(to_bfloat16(from_bfloat16(static_cast<std::uint16_t>(x))) == x);
}

TEST_CASE("under the plan's own numerics 16-bit tensors take 2 bytes, all others what they take in fp32") {
  CHECK(size_of(stored_as(DType::bf16, Numerics::plan)) == 2);
  CHECK(size_of(stored_as(DType::fp32, Numerics::plan)) == 4);
  CHECK(size_of(stored_as(DType::bf16, Numerics::fp32)) == 4);
  CHECK(size_of(stored_as(DType::bf16, Numerics::fp64)) == 8);
  CHECK(encoded({1.0, -2.5}, ElementType::real16).size() == 4);
}

TEST_CASE("out of memory: the table adds up to the predicted peak, and names rank, tensor and what the device holds") {
  const Program program = Job(tiny_gpt()).lower();
  const RoleMemory predicted = peak_memory(program, Bytes{0}, Bytes{0}).at(0);
  CategoryBytes used{};
  nth(used, MemoryCategory::weights) = Bytes{12345678.0};
  const Error e = explained(OutOfMemory("no", Bytes{1 << 20}, Bytes{3.0 * (1 << 20)}, Bytes{4.0 * (1 << 20)}), program,
                            0, used, "layer.forward/attention");
  const std::string text = e.what();
  CHECK(e.kind == ErrorKind::infeasible);
  for (const std::string& part :
       {std::string("rank 0"), std::string("'layer.forward/attention'"), to_string_iec(Bytes{1 << 20}),
        to_string_iec(predicted.peak), to_string_iec(Bytes{12345678.0}),
        to_string_iec(nth(predicted.by_category, MemoryCategory::activations))})
    CHECK(text.find(part) != std::string::npos);
  CHECK_FALSE(e.hint.empty());
}
