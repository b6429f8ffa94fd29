#include "core/base/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/price/support.hpp"

using namespace cost_test;

namespace {

const AttentionShape kLong{1, 16, 16, 16384, 16384, 128, false};

AttentionShape causal(AttentionShape s) {
  s.causal = true;
  return s;
}

}  // namespace

TEST_CASE("a memory-bound kernel takes its bytes over its share of HBM") {
  const KernelModel model(toy_gpu(), toy_profile());
  const auto t = model.price(make_memory_bound(KernelClass::norm, Bytes{300e6}, Bytes{200e6}));
  CHECK(t.time.value() == Approx(1e-6 + 500e6 / 0.5e12));
  CHECK(t.hbm_sensitivity == Approx(1e-3 / 1.001e-3));
  CHECK(t.sm_sensitivity == 0);
  const auto four = model.price(make_memory_bound(KernelClass::norm, Bytes{300e6}, Bytes{200e6}, DType::bf16, 4));
  CHECK((four.time - t.time).value() == Approx(3e-6));
}

TEST_CASE("a recurrence moves states and scores of chunks in fp32 besides what it reads and writes") {
  // 2 heads of 4, 1 group, states of 8, chunks of 16: A 8, G 8, S 4, Q 16 a token.
  const StateSpaceShape s{1000, 2, 4, 1, 8, 16};
  const Kernel forward = make_state_space(s, DType::bf16, 7), backward = make_state_space(s, DType::bf16, 18, true);
  CHECK((forward.bytes_read + forward.bytes_written).value() ==
        Approx(1000 * (2.0 * (6 * 8 + 8 * 8) + 4.0 * (4 * 4 + 2 * 16))));
  CHECK((backward.bytes_read + backward.bytes_written).value() ==
        Approx(1000 * (2.0 * (21 * 8 + 23 * 8) + 4.0 * (10 * 4 + 6 * 16))));
  CHECK(forward.bytes_written.value() == Approx(1000 * 2.0 * 8));
  CHECK(flops_of(forward).value() == Approx(1000 * 2.0 * (16 * 8 + 2 * (16 * 4 + 2 * 8 * 4))));
  CHECK(flops_of(backward) / flops_of(forward) == Approx(2.5));
  const KernelModel model(toy_gpu(), toy_profile());
  CHECK(model.price(forward).time.value() ==
        Approx(7e-6 + (forward.bytes_read + forward.bytes_written).value() / 0.5e12));
}

TEST_CASE("arithmetic limits an elementwise kernel that does enough of it") {
  const KernelModel model(toy_gpu(), toy_profile());
  Kernel k = make_memory_bound(KernelClass::elementwise, Bytes{1e6}, Bytes{1e6}, DType::fp32);
  k.flops = Flops{1e11};
  const auto t = model.price(k);
  CHECK(t.compute_bound.value() == Approx(0.01));
  CHECK(t.sm_sensitivity > 0.99);
}

TEST_CASE("a large product runs at its efficiency and on SMs alone") {
  const KernelModel model(toy_gpu(), toy_profile());
  const auto t = model.price(make_gemm({1, 8192, 8192, 8192}, DType::bf16, DType::bf16));
  CHECK(t.compute_bound.value() == Approx(2 * 8192.0 * 8192 * 8192 / 80e12));
  CHECK(t.sm_sensitivity > 0.95);
  CHECK(t.sm_sensitivity + t.hbm_sensitivity <= 1);
  CHECK_FALSE(t.misaligned);
}

TEST_CASE("a vocabulary that is no multiple of 16 bytes costs the slow kernel class and is flagged") {
  const KernelModel model(toy_gpu(), toy_profile());
  const auto padded = model.price(make_gemm({1, 8192, 50304, 4096}, DType::bf16, DType::bf16));
  const auto odd = model.price(make_gemm({1, 8192, 50257, 4096}, DType::bf16, DType::bf16));
  CHECK(odd.misaligned);
  CHECK(odd.time / padded.time == Approx(3).epsilon(0.02));
  for (const double even : {50258.0, 50260.0}) {
    const auto t = model.price(make_gemm({1, 8192, even, 4096}, DType::bf16, DType::bf16));
    CHECK(t.misaligned);
    CHECK(t.time / padded.time == Approx(1.5).epsilon(0.02));
  }
  // fp32 on CUDA cores has no such class, and a ragged expert is padded by its kernel
  CHECK_FALSE(model.price(make_gemm({1, 8192, 50257, 4096}, DType::fp32, DType::fp32)).misaligned);
  Kernel expert = make_gemm({8, 273.5, 4096, 4096}, DType::bf16, DType::bf16);
  expert.cls = KernelClass::grouped_gemm;
  CHECK_FALSE(model.price(expert).misaligned);
}

TEST_CASE("accumulating into fp32 costs traffic and efficiency") {
  const KernelModel model(toy_gpu(), toy_profile());
  const GemmShape s{1, 4096, 4096, 8192};
  const auto plain = model.price(make_gemm(s, DType::bf16, DType::fp32));
  const auto added = model.price(make_gemm(s, DType::bf16, DType::fp32, true, true));
  CHECK(added.compute_bound / plain.compute_bound == Approx(1 / 0.9));
  CHECK((added.memory_bound - plain.memory_bound).value() == Approx(4096.0 * 4096 * 4 / 0.5e12));
  Kernel grouped = make_gemm(s, DType::bf16, DType::fp32, true, true);
  grouped.cls = KernelClass::grouped_gemm;
  CHECK(model.price(grouped).memory_bound.value() == Approx(added.memory_bound.value()));
}

TEST_CASE("experts whose products are calls of their own add a share of the fixed time each") {
  CalibrationProfile profile = toy_profile();
  put(profile, "grouped_gemm", "fixed_share", 0.25);
  const KernelModel model(toy_gpu(), profile);
  Kernel k = make_gemm({9, 512, 4096, 4096}, DType::bf16, DType::bf16);
  k.cls = KernelClass::grouped_gemm;
  const KernelTime together = model.price(k);
  k.one_by_one = true;
  const KernelTime apart = model.price(k);
  CHECK((apart.time - together.time) / together.fixed == Approx(0.25 * 8));
  CHECK((apart.fixed - together.fixed) / together.fixed == Approx(0.25 * 8));
  k.gemm.batch = 1;
  CHECK(model.price(k).fixed.value() == Approx(together.fixed.value()));
}

TEST_CASE("causal attention does half the work, its backward two and a half times the forward") {
  const KernelModel model(toy_gpu(), toy_profile());
  const auto full = model.price(make_flash_attention(kLong, DType::bf16)).time;
  CHECK(full.value() == Approx(4.0 * 16 * 16384 * 16384 * 128 / 60e12));
  CHECK(model.price(make_flash_attention(causal(kLong), DType::bf16)).time / full == Approx(0.5));
  CHECK(model.price(make_flash_attention(kLong, DType::bf16, true)).time / full == Approx(2.5 / 0.8));
}

TEST_CASE("a causal pass computes at most what is masked, and a long kernel loses up to the slowdown that is stated") {
  FlashConstants c;
  c.efficiency = {{128, 0.5}};
  c.diagonal_keys = 5000;
  const GemmRates rates{FlopsPerSecond{100e12}, BytesPerSecond{1e12}, 100};
  const auto seconds = [&](double length, bool masked) {
    return flash_time({1, 8, 8, length, length, 128, masked}, 2, false, c, rates).total.value();
  };
  CHECK(seconds(4096, true) == Approx(seconds(4096, false)));
  CHECK(seconds(32768, true) == Approx(seconds(32768, false) * (0.5 + 2500.0 / 32768)));
  const double brief = seconds(1024, false), lasting = seconds(131072, false);
  c.long_slowdown = 0.3;
  c.long_after = Seconds{0.05};
  CHECK(seconds(1024, false) == Approx(brief * (1 + 0.3 * brief / 0.05)).epsilon(1e-3));
  CHECK(seconds(131072, false) == Approx(lasting * 1.3));
}

TEST_CASE("attention sustains no more operations than its limit, which short kernels do not meet") {
  FlashConstants c;
  c.efficiency = {{128, 0.5}};
  c.start_keys = c.start_keys_backward = 2048;
  const GemmRates rates{FlopsPerSecond{100e12}, BytesPerSecond{1e15}, 100};
  const auto rate = [&](double length, bool backward) {
    const AttentionShape s{1, 100, 100, length, length, 128, false};
    return (attention_flops(s, backward) / flash_time(s, 2, backward, c, rates).total).value() / 100e12;
  };
  const double brief = rate(2048, false), lasting = rate(131072, true);
  c.sustained = 0.4;
  CHECK(rate(2048, false) == Approx(brief));
  CHECK(brief < 0.4);
  CHECK(lasting > 0.4);
  CHECK(rate(131072, true) == Approx(0.4));
}

TEST_CASE("attention of fewer blocks than the GPU has SMs takes as long as its longest block") {
  FlashConstants c;
  c.efficiency = {{128, 0.5}};
  const GemmRates rates{FlopsPerSecond{100e12}, BytesPerSecond{1e15}, 128};
  const auto seconds = [&](double heads, bool masked, bool backward = false) {
    return flash_time({1, heads, heads, 4096, 4096, 128, masked}, 2, backward, c, rates).total.value();
  };
  CHECK(seconds(1, false) == Approx(seconds(4, false)));      // 32 and 128 blocks of 128 queries
  CHECK(seconds(8, false) == Approx(2 * seconds(4, false)));  // every SM has its share
  CHECK(seconds(1, true) == Approx(seconds(1, false)));       // the last block sees all keys
  CHECK(seconds(1, true, true) == Approx(2.5 * seconds(1, true)));
  c.block_queries = 256;
  CHECK(seconds(4, true) == Approx(seconds(8, true)));
  CHECK(seconds(4, true) == Approx(seconds(8, false)));
}

TEST_CASE("the quarters of a causal square add up to it, as ring attention cuts it") {
  const AttentionShape whole = causal(kLong);
  AttentionShape diagonal = whole;
  diagonal.seq_q = diagonal.seq_k = 8192;
  AttentionShape below = diagonal;
  below.causal = false;
  CHECK((2.0 * attention_flops(diagonal, false) + attention_flops(below, false)).value() ==
        Approx(attention_flops(whole, false).value()));
  AttentionShape lower_half = whole;  // the last half of the queries sees both blocks
  lower_half.seq_q = 8192;
  CHECK((attention_flops(lower_half, false) + attention_flops(diagonal, false)).value() ==
        Approx(attention_flops(whole, false).value()));
}

TEST_CASE("attention to a window does the work of its keys, and at most that of all") {
  AttentionShape window = causal(kLong);
  window.window = 128;
  CHECK(attended_keys(window) == Approx(128 - 128.0 * 128 / (2 * 16384)));
  AttentionShape later = window;  // Queries with as many keys before them lack none.
  later.seq_q = 8192;
  CHECK(attended_keys(later) == 128);
  AttentionShape first = window;
  first.seq_q = first.seq_k = 8192;
  CHECK((attention_flops(first, false) + attention_flops(later, false)).value() ==
        Approx(attention_flops(window, false).value()));
  const KernelModel model(toy_gpu(), toy_profile());
  const auto priced = [&](double keys, bool backward) {
    AttentionShape s = causal(kLong);
    s.window = keys;
    return model.price(make_flash_attention(s, DType::bf16, backward)).time;
  };
  for (const bool backward : {false, true}) {
    const Seconds all = model.price(make_flash_attention(causal(kLong), DType::bf16, backward)).time;
    CHECK(priced(16384, backward) == all);
    CHECK(priced(128, backward) < all * 0.1);
    for (double keys = 256; keys <= 16384; keys *= 2)
      CHECK((priced(keys / 2, backward) < priced(keys, backward) && priced(keys, backward) <= all));
  }
}

TEST_CASE("backward attention in 8 bits computes what a window hides, forward it does not") {
  FlashConstants c;
  c.efficiency[128] = 0.5;
  const auto time = [&](double window, DType type, bool backward) {
    AttentionShape s = causal(kLong);
    s.window = window;
    return flash_time(as_computed(s, type), size_of(type), backward, c,
                      {FlopsPerSecond{1e15}, BytesPerSecond{3e12}, 100})
        .total;
  };
  for (const DType type : {DType::fp8, DType::mxfp8}) {
    CHECK(time(128, type, true) == time(0, type, true));
    CHECK(time(128, type, false) < 0.1 * time(0, type, false));
  }
  CHECK(time(128, DType::bf16, true) < 0.1 * time(0, DType::bf16, true));
}

TEST_CASE("grouped-query attention moves fewer bytes for the same operations; head dimensions are padded") {
  AttentionShape gqa = kLong;
  gqa.kv_heads = 2;
  CHECK(attention_flops(gqa, true) == attention_flops(kLong, true));
  CHECK(attention_bytes(gqa, 2, false).value() == 2.0 * 16384 * 128 * (2 * 16 + 2 * 2));
  const KernelModel model(toy_gpu(), toy_profile());
  AttentionShape d80 = kLong, d96 = kLong;
  d80.head_dim = 80;
  d96.head_dim = 96;
  const auto priced = [&](const AttentionShape& s) {
    return model.price(make_flash_attention(s, DType::bf16)).compute_bound;
  };
  CHECK(priced(d80) == priced(d96));
  CHECK(priced(d96).value() == Approx(4.0 * 16 * 16384 * 16384 * 96 / 50e12));
}

TEST_CASE("the floor grants an L2 of reads and one of writes, and nothing prices below it") {
  const KernelModel model(toy_gpu(), toy_profile());
  CHECK(model.floor(make_memory_bound(KernelClass::copy, Bytes{40e6}, Bytes{40e6})).value() == 0);
  CHECK(model.floor(make_memory_bound(KernelClass::copy, Bytes{140e6}, Bytes{40e6})).value() == Approx(100e-6));
  CHECK(model.floor(make_gemm({1, 8192, 8192, 8192}, DType::bf16, DType::bf16)).value() ==
        Approx(2 * 8192.0 * 8192 * 8192 / 100e12));
  for (double size : {8.0, 64.0, 1000.0, 4096.0, 20000.0}) {
    for (const auto& k : {make_gemm({2, size, size, size}, DType::bf16, DType::fp32, true),
                          make_gemm({1, size, 16, size}, DType::fp32, DType::fp32),
                          make_flash_attention({1, 8, 1, size, size, 64, true}, DType::bf16, true),
                          make_memory_bound(KernelClass::optimizer, Bytes{size * size}, Bytes{size})})
      CHECK(model.price(k).time >= model.floor(k));
  }
}

TEST_CASE("unknown arithmetic and impossible constants are errors, not numbers") {
  const KernelModel model(toy_gpu(), toy_profile());
  CHECK_THROWS_AS(model.price(make_gemm({1, 64, 64, 64}, DType::fp8, DType::bf16)), Error);
  auto too_good = toy_profile();
  put(too_good, "gemm", "efficiency", 1.2);
  CHECK_THROWS_AS(KernelModel(toy_gpu(), too_good), Error);
  auto lacking = toy_profile();
  lacking.groups.at("norm").constants.erase("bandwidth_fraction");
  CHECK_THROWS_AS(KernelModel(toy_gpu(), lacking), Error);
  auto unknown = toy_gpu();
  unknown.memory_bandwidth = BytesPerSecond{};
  CHECK_THROWS_AS(KernelModel(unknown, toy_profile()), Error);
}
