#include "tests/published/fit/fit_profiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "tests/published/convolution_level.hpp"
#include "tests/published/fit/fit_convolutions.hpp"
#include "tests/published/fit/fit_flash_profiles.hpp"

namespace rehearse {
namespace {

using enum GemmParameter;
const std::string kGemms = "gemm_by_shape.csv";
const std::string kSweeps = "gemm_sweeps.csv";
const std::string kDeepbench = "gemm_deepbench.csv", kLayers = "convolutions_by_layer.csv";
const std::string kFp8 = "gemm_fp8.csv";
const std::string kAttention = "flash_attention.csv", kWindows = "window_attention.csv";

constexpr double kFewestRows = 16;  // fewer rows of m are inference's, another kernel and another regime

GemmRates rates_of(const GpuSpec& gpu, DType type) { return {gpu.peak(type), gpu.memory_bandwidth, gpu.sm_count}; }

/// With or without what short kernels gain, which takes benchmarks of short and of long ones.
std::vector<GemmParameter> free_in(GemmFormula formula, bool bursts) {
  std::vector<GemmParameter> free{efficiency, bandwidth_fraction, fixed, overlap_power};
  if (bursts) free.insert(free.end(), {burst_gain, burst_gain_zeros, burst});
  if (formula == GemmFormula::tile_wave) free.insert(free.end(), {k_prologue, tile_penalty, wave_quantisation});
  return free;
}

// Whole tiles and waves make the loss bumpy: the lowest of a few starts is taken.
GemmFit fit_formula(GemmFormula formula, std::span<const MeasuredGemm> rows, bool bursts) {
  GemmFitOptions options;
  options.free = free_in(formula, bursts);
  options.loss_scale = 0.06;
  options.minimiser = {.restarts = 3, .max_evaluations = 8000, .tolerance = 1e-6};
  GemmFit best;
  for (const double power : {1.6, 3.0}) {
    options.start = {formula, 0.75, 0.85, Seconds{4e-6}, power, 0, 0, 0, 1, 0, 0, {}};
    if (bursts)
      options.start.burst_gain = 0.1, options.start.burst_gain_zeros = 0.15, options.start.burst = Seconds{7e-4};
    if (formula == GemmFormula::tile_wave) {
      set(options.start, k_prologue, 100);
      set(options.start, tile_penalty, 5);
      set(options.start, wave_quantisation, 0.45);
    }
    GemmFit fit = fit_gemm(rows, options);
    if (best.rows == 0 || fit.loss < best.loss) best = std::move(fit);
  }
  return best;
}

struct Halves {
  std::vector<MeasuredGemm> fit, held_out;
};

// Every octave of m weighs the same: benchmarks crowd in some sizes.
void balance(std::vector<MeasuredGemm>& rows) {
  std::map<int, int> count;
  const auto octave = [](const MeasuredGemm& r) { return std::ilogb(r.shape.m); };
  for (const auto& r : rows) ++count[octave(r)];
  for (auto& r : rows) r.weight = 1.0 / count[octave(r)];
}

// The sizes that training runs, from 2^10 on, weigh as four octaves, each row of them the same: few rows of the last
// octave must not steer the fit.
void balance_for_training(std::vector<MeasuredGemm>& rows) {
  constexpr double kLeast = 1024, kWeight = 4;
  balance(rows);
  const auto trained = [](const MeasuredGemm& r) { return r.shape.m >= kLeast; };
  const auto count = static_cast<double>(std::count_if(rows.begin(), rows.end(), trained));
  for (auto& r : rows)
    if (trained(r)) r.weight = kWeight / count;
}

class Recipe {
 public:
  Recipe(TableReader& reader, const FitGpus& gpu) : reader_(reader), gpu_(gpu) {}

  FitReport run() {
    gemms_ = read_gemms(reader_, kGemms);
    std::ranges::move(read_gemms(reader_, kSweeps), std::back_inserter(gemms_));
    std::ranges::move(read_gemms(reader_, kDeepbench), std::back_inserter(gemms_));
    fp8_ = read_gemms(reader_, kFp8);
    layers_ = read_convolutions(reader_, kLayers);
    std::vector<CalibrationProfile> stated;
    for (const char* generation :
         {"fallback", "maxwell", "kepler", "pascal", "volta", "turing", "ampere", "hopper", "blackwell"}) {
      const std::string file = stated_file(generation);
      stated.push_back(parse_calibration(reader_.text(file), file));
    }
    std::vector<AttentionRow> attention = read_attention(reader_, kAttention);
    std::ranges::move(read_attention(reader_, kWindows), std::back_inserter(attention));
    flash_.emplace(std::move(attention), gpu_, stated);
    FitReport report;
    for (CalibrationProfile& p : stated) {
      if (p.generation == "kepler") carry(p.groups.at("convolution"), report.profiles.back().groups.at("convolution"));
      report.profiles.push_back(build(std::move(p)));
    }
    report.reads = reader_.reads();
    return report;
  }

 private:
  static std::string stated_file(const std::string& generation) { return "stated/" + generation + ".json"; }

  CalibrationProfile build(CalibrationProfile p) {
    used_.clear();
    noted_.clear();
    note(stated_file(p.generation), p.generation);
    if (p.generation == "maxwell") convolutions_of_two(p, "titan_x_maxwell", "m40");
    // Both with one release of cuDNN; TITAN X's layers ran on the one before.
    if (p.generation == "pascal") convolutions_of_two(p, "p100_sxm2_16", "gtx_1080_ti");
    if (p.generation == "volta") tensor_cores(p, "v100_sxm2_16");
    if (p.generation == "turing") tensor_cores(p, "t4");
    if (p.generation == "ampere") ampere(p);
    if (p.generation == "hopper") hopper(p);
    if (p.generation == "blackwell") blackwell(p);
    if (p.generation == "ampere" || p.generation == "hopper" || p.generation == "blackwell") convolutions_by_ratio(p);
    for (const auto& [file, ids] : used_) {
      std::uint64_t hash = fnv1a("");
      for (const auto& id : ids) hash = fnv1a(id + "\n", hash);
      p.fitted_on.push_back({file, hash_of(file), static_cast<int>(ids.size()), hex_digits(hash)});
    }
    return p;
  }

  // Generations of which one benchmark measured products and layers on tensor cores.
  void tensor_cores(CalibrationProfile& p, const std::string& gpu) {
    p.groups["gemm"] = best_formula(p, {gpu}, "deepbench", false);
    for (const auto cls : {ConvolutionClass::cuda, ConvolutionClass::tensor})
      convolutions(p, p.groups[std::string(group_of(cls))], cls, gpu);
    measured_.push_back({p.groups.at("gemm"), p.groups.at(std::string(group_of(ConvolutionClass::tensor)))});
  }

  // The second differs in clocks and memory by more than the datasheet says.
  void convolutions_of_two(CalibrationProfile& p, const std::string& first, const std::string& second) {
    const std::string group(group_of(ConvolutionClass::cuda));
    convolutions(p, p.groups[group], ConvolutionClass::cuda, first);
    convolutions(p, p.gpus[second][group], ConvolutionClass::cuda, second);
  }

  void convolutions(CalibrationProfile& p, KernelCalibration& group, ConvolutionClass cls, const std::string& id) {
    const DType type = cls == ConvolutionClass::tensor ? DType::fp16 : DType::fp32;
    const GpuSpec gpu = gpu_(id);
    const ConvolutionRates rates{gpu.peak(type), gpu.memory_bandwidth, gpu.sm_count, size_of(type)};
    std::vector<MeasuredConvolution> fitted, held_out;
    for (const ConvolutionRow& row : layers_) {
      if (row.gpu != id || row.type != type) continue;
      note(kLayers, row.id);
      (in_fit_half(row) ? fitted : held_out).push_back({&row, rates});
    }
    const ConvolutionFit fit = fit_convolutions(fitted, cls);
    group.measured_on = {id};
    group.held_out = rounded(convolution_errors(held_out, cls, fit.constants));
    for (const ConvolutionParameter c : parameters_of(cls))
      group.constants[std::string(name_of(c))] = {rounded(fit.constants[c]), "deepbench", fit.rows,
                                                  rounded(nth(fit.sensitivity, c))};
    for (const auto& [pass, name] :
         {std::pair{ConvolutionPass::forward, "forward"}, std::pair{ConvolutionPass::input_grad, "input gradient"},
          std::pair{ConvolutionPass::weight_grad, "weight gradient"}}) {
      std::vector<MeasuredConvolution> own;
      for (const auto& m : held_out)
        if (m.row->shape.pass == pass) own.push_back(m);
      p.errors.push_back(
          {fmt::format("{} {}, {}", group_of(cls), id, name), rounded(convolution_errors(own, cls, fit.constants))});
    }
  }

  // Constants of the generation before, those that have a level times what `group` states.
  static void carry(KernelCalibration& group, const KernelCalibration& measured) {
    const CalibrationConstant level = group.constants.at("level");
    group.constants.clear();
    for (const auto& [key, constant] : measured.constants)
      group.constants[key] = has_level(key)
                                 ? CalibrationConstant{rounded(constant.value * level.value), level.source, 0, 0}
                                 : CalibrationConstant{constant.value, "carried_kepler", 0, 0};
  }

  // A generation without measured layers reaches as much of its products' share of the peak as others do, in the mean.
  void convolutions_by_ratio(CalibrationProfile& p) const {
    const std::string source = "convolutions_by_ratio";
    KernelCalibration& group = p.groups[std::string(group_of(ConvolutionClass::tensor))];
    for (const auto& [key, constant] : measured_.front().convolution.constants) {
      double value = constant.value;
      if (key.starts_with("efficiency")) {
        double ratio = 0;
        for (const Measured& m : measured_)
          ratio += m.convolution.constants.at(key).value / m.gemm.constants.at("efficiency").value /
                   static_cast<double>(measured_.size());
        value = std::min(1.0, ratio * p.groups.at("gemm").constants.at("efficiency").value);
      }
      // What an input gradient takes at least is a benchmark's host.
      if (key == "least_input_grad_s") value = 0;
      group.constants[key] = {rounded(value), source, 0, 0};
    }
  }

  void ampere(CalibrationProfile& p) {
    p.groups["gemm"] = best_formula(p, {"a100_sxm4_80", "a100_sxm4_40"}, "a100s");
    p.gpus["a40"]["gemm"] = best_formula(p, {"a40"}, "vidur");
    auto& pcie = p.gpus["a100_pcie_80"]["gemm"];
    fit_level(p, pcie, "a100_pcie_80", Flops{});
    // Its level was fitted without what short kernels gain on the SXM board.
    for (const char* gain : {"burst_gain", "burst_gain_zeros"}) pcie.constants[gain] = {0, "simumax", 0, 0};
    auto factor = pcie.constants.at(std::string(name_of(accumulate_factor)));
    p.groups["gemm"].constants["accumulate_factor"] = factor;
    p.gpus["a40"]["gemm"].constants["accumulate_factor"] = factor;
    for (const char* implementation : {"flash2", "flash1", "flash_triton"})
      set_flash(p, "a100_sxm4_80", implementation, "flash2");
  }

  void hopper(CalibrationProfile& p) {
    p.groups["gemm"] = best_formula(p, {"h100_sxm5_80"}, "vidur");
    fp8(p, p.groups.at("gemm_fp8"), "h100_sxm5_80");
    for (const char* implementation : {"flash2", "flash1"}) set_flash(p, "h100_sxm5_80", implementation, "flash2");
    set_flash(p, "h100_sxm5_80", "flash3", "flash3");
    set_flash(p, "h100_sxm5_80", "cudnn", "flash3");
  }

  void blackwell(CalibrationProfile& p) {
    fit_level(p, p.groups.at("gemm"), "b200_sxm", Flops{1e12});
    flash_blackwell(p, "cudnn", "gb200");
    flash_blackwell(p, "cudnn_9.13", "b200_sxm");
    flash_blackwell(p, "cudnn_fp8", "gb200");
    flash_blackwell(p, "cudnn_mxfp8", "gb200");
  }

  // One kernel on the chip that has it measured and on Blackwell Ultra, whose exponentials are twice as fast. B300 is
  // GB300's chip on less power.
  void flash_blackwell(CalibrationProfile& p, const std::string& implementation, const std::string& gpu) {
    const std::string group = FlashRecipe::group_of(implementation);
    const KernelCalibration stated = p.groups.at(group);
    p.groups[group] = flash(p, stated, gpu, implementation, "cudnn_frontend");
    KernelCalibration ultra = flash(p, stated, "gb300", implementation, "cudnn_frontend");
    std::erase_if(ultra.constants, [&](const auto& own) {
      return stated.constants.contains(own.first) && stated.constants.at(own.first).source == own.second.source;
    });
    p.gpus["gb300"][group] = ultra;
    ultra.measured_on.clear();
    ultra.held_out = {};
    p.gpus["b300_sxm"][group] = ultra;
  }

  // Both formulas on the same half; the lower held-out error, median and 90th percentile together, is shipped. Of
  // several GPUs with one chip each weighs the same.
  KernelCalibration best_formula(CalibrationProfile& p, const std::vector<std::string>& gpus, const std::string& source,
                                 bool bursts = true) {
    std::map<std::string, Halves> by_gpu;
    Halves rows;
    for (const std::string& gpu : gpus) {
      Halves& own = by_gpu[gpu] = halves(gemms_, gpu, DType::fp16, kFewestRows);
      balance_for_training(own.fit);
      std::ranges::copy(own.fit, std::back_inserter(rows.fit));
      std::ranges::copy(own.held_out, std::back_inserter(rows.held_out));
    }
    KernelCalibration best;
    double lowest = std::numeric_limits<double>::infinity();
    for (auto formula : {GemmFormula::soft_roofline, GemmFormula::tile_wave}) {
      const GemmFit fit = fit_formula(formula, rows.fit, bursts);
      const auto group = calibration(fit, free_in(formula, bursts), source, gpus, rows);
      for (const auto& [gpu, own] : by_gpu)
        report_classes(p, "gemm " + gpu + " " + std::string(name_of(formula)), own.held_out, fit.constants);
      if (const double score = group.held_out.median + group.held_out.p90 / 3; score < lowest) {
        lowest = score;
        best = group;
      }
    }
    return best;
  }

  // Training shapes only: nearly none is limited by memory, so the stated memory constants stand and two levels are
  // fitted. Products below `least` operations are left out of the fit: too short for the power limit to bite as it does
  // in a training step.
  void fit_level(CalibrationProfile& p, KernelCalibration& group, const std::string& gpu, Flops least) {
    auto rows = halves(gemms_, gpu, DType::bf16, 0);
    std::erase_if(rows.fit, [&](const MeasuredGemm& r) { return gemm_flops(r.shape) < least; });
    GemmFitOptions options;
    options.start.formula = GemmFormula::soft_roofline;
    options.start.efficiency = 0.6;
    for (auto c : {bandwidth_fraction, fixed, overlap_power, k_prologue})
      set(options.start, c, group.constants.at(std::string(name_of(c))).value);
    options.free = {efficiency, accumulate_factor};
    const GemmFit fit = fit_gemm(rows.fit, options);
    const auto fitted = calibration(fit, options.free, "simumax", {gpu}, rows);
    for (auto c : options.free) group.constants[std::string(name_of(c))] = fitted.constants.at(std::string(name_of(c)));
    group.measured_on = fitted.measured_on;
    group.held_out = fitted.held_out;
    report_classes(p, "gemm " + gpu + " soft_roofline", rows.held_out, fit.constants);
    if (least.value() <= 0) return;
    std::erase_if(rows.held_out, [&](const MeasuredGemm& r) { return gemm_flops(r.shape) < least; });
    p.errors.push_back(
        {"gemm " + gpu + " soft_roofline, sustained", rounded(gemm_errors(rows.held_out, fit.constants))});
  }

  // Few rows: how memory and arithmetic overlap is taken over from products in 16 bits.
  void fp8(CalibrationProfile& p, KernelCalibration& group, const std::string& gpu) {
    const auto rows = halves(fp8_, gpu, DType::fp8, 0);
    GemmFitOptions options;
    options.start = {
        GemmFormula::soft_roofline, 0.7, 0.8, Seconds{group.constants.at("fixed_s").value}, 1.9, 400, 0, 0, 1};
    for (auto c : {bandwidth_fraction, overlap_power}) {
      const CalibrationConstant& wide = p.groups.at("gemm").constants.at(std::string(name_of(c)));
      set(options.start, c, wide.value);
      group.constants[std::string(name_of(c))] = {wide.value, wide.source, 0, 0};
    }
    options.free = {efficiency, k_prologue};
    const GemmFit fit = fit_gemm(rows.fit, options);
    const auto fitted = calibration(fit, options.free, "deepgemm", {gpu}, rows);
    for (auto c : options.free) group.constants[std::string(name_of(c))] = fitted.constants.at(std::string(name_of(c)));
    group.measured_on = fitted.measured_on;
    group.held_out = fitted.held_out;
    report_classes(p, "gemm_fp8 " + gpu + " soft_roofline", rows.held_out, fit.constants);
  }

  void set_flash(CalibrationProfile& p, const std::string& gpu, const std::string& implementation,
                 const std::string& source) {
    KernelCalibration& group = p.groups.at(FlashRecipe::group_of(implementation));
    group = flash(p, group, gpu, implementation, source);
  }

  // Efficiencies are stored for the clock of the chip that the generation states.
  KernelCalibration flash(CalibrationProfile& p, const KernelCalibration& stated, const std::string& gpu,
                          const std::string& implementation, const std::string& source) {
    for (const AttentionRow* row : flash_->rows_of(implementation, gpu)) note(row->file, row->attention.id);
    const KernelCalibration group = flash_->constants(stated, implementation, gpu, power_clock(p, gpu_(gpu)), source);
    p.errors.push_back({"attention_" + implementation + " " + gpu, group.held_out});
    return group;
  }

  Halves halves(const std::vector<GemmRow>& all, const std::string& gpu, DType type, double fewest) {
    Halves h;
    const GemmRates rates = rates_of(gpu_(gpu), type);
    for (const auto& row : all) {
      if (row.gpu != gpu || row.gemm.shape.m < fewest) continue;
      note(row.gemm.id.substr(0, row.gemm.id.rfind(':')), row.gemm.id);
      auto& half = in_fit_half(row.gemm.shape) ? h.fit : h.held_out;
      half.push_back(row.gemm);
      half.back().rates = rates;
    }
    balance(h.fit);
    return h;
  }

  static KernelCalibration calibration(const GemmFit& fit, const std::vector<GemmParameter>& free,
                                       const std::string& source, const std::vector<std::string>& gpus,
                                       const Halves& rows) {
    KernelCalibration group;
    group.formula = name_of(fit.constants.formula);
    group.measured_on = gpus;
    group.held_out = rounded(gemm_errors(rows.held_out, fit.constants));
    for (auto c : free)
      group.constants[std::string(name_of(c))] = {rounded(get(fit.constants, c)), source, fit.rows,
                                                  rounded(nth(fit.sensitivity, c))};
    if (!group.constants.contains("k_prologue")) group.constants["k_prologue"] = {0, source, 0, 0};
    return group;
  }

  static void report_classes(CalibrationProfile& p, const std::string& what, const std::vector<MeasuredGemm>& rows,
                             const GemmConstants& constants) {
    struct Class {
      const char* name;
      double from, to;
    };
    for (const Class c : {Class{"all", 0, 1e9}, Class{"below 1 wave", 0, 1}, Class{"1-4 waves", 1, 4},
                          Class{"above 4 waves", 4, 1e9}}) {
      std::vector<MeasuredGemm> members;
      for (const auto& r : rows)
        if (const double w = gemm_waves(r.shape, r.rates.sms); w >= c.from && w < c.to) members.push_back(r);
      p.errors.push_back({what + ", " + c.name, rounded(gemm_errors(members, constants))});
    }
  }

  void note(const std::string& file, const std::string& row) {
    if (!noted_.insert(file + "|" + row).second) return;
    used_[file].push_back(row);
    reader_.use(file, row);
  }

  [[nodiscard]] std::string hash_of(const std::string& file) const {
    for (const auto& read : reader_.reads())
      if (read.file == file) return read.file_hash;
    return {};
  }

  TableReader& reader_;
  const FitGpus& gpu_;
  std::vector<GemmRow> gemms_, fp8_;
  std::vector<ConvolutionRow> layers_;
  /// Of generations whose layers were measured on tensor cores.
  struct Measured {
    KernelCalibration gemm, convolution;
  };
  std::vector<Measured> measured_;
  std::optional<FlashRecipe> flash_;
  std::map<std::string, std::vector<std::string>> used_;  // by file, for the profile being built
  std::set<std::string> noted_;
};

std::string percent(double v) { return fmt::format("{:.1f} %", 100 * v); }

void print_groups(std::string& out, const std::string& owner, const KernelGroups& groups) {
  for (const auto& [name, group] : groups) {
    out += fmt::format("{} {} {}", owner, name, group.formula);
    if (group.held_out.rows > 0)
      out += fmt::format(" (held out: {} rows, median {}, p90 {})", group.held_out.rows, percent(group.held_out.median),
                         percent(group.held_out.p90));
    out += '\n';
    for (const auto& [key, c] : group.constants)
      out += fmt::format("  {:<20} {:>10.4g}  rows {:>4}  sensitivity {:>6.2f}  {}\n", key, c.value, c.rows,
                         c.sensitivity, c.source);
  }
}

}  // namespace

FitReport fit_profiles(TableReader& reader, const FitGpus& gpu) { return Recipe(reader, gpu).run(); }

std::string fit_report_text(const FitReport& report) {
  std::string out;
  for (const auto& p : report.profiles) {
    print_groups(out, p.generation, p.groups);
    for (const auto& [id, groups] : p.gpus) print_groups(out, p.generation + " " + id, groups);
  }
  out += "\nheld-out errors                                        rows   median      p90     bias\n";
  for (const auto& p : report.profiles)
    for (const auto& e : p.errors)
      out += fmt::format("{:<52} {:>6} {:>8} {:>8} {:>8}\n", e.what, e.held_out.rows, percent(e.held_out.median),
                         percent(e.held_out.p90), percent(e.held_out.bias));
  out += "\nread\n";
  for (const auto& r : report.reads)
    out += fmt::format("  {:<28} {}  {} rows used\n", r.file, r.file_hash, r.rows.size());
  return out;
}

}  // namespace rehearse
