// rehearse_fit_steps TOPOLOGIES MODELS FILE...: fits the constants of TOPOLOGIES/calibration/steps.json on the measured
// steps of FILEs, one after the other and twice over, and writes them back. A constant sees every `every`-th row of its
// source, on GPUs of its generation (and, where it names one, on that GPU), and no other.

#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "core/config/json_file.hpp"
#include "core/price/calibration/calibration.hpp"
#include "core/scoreboard/scoreboard.hpp"

namespace {

namespace fs = std::filesystem;
using namespace rehearse;

/// A copy of the data whose step constants can be changed.
class Workbench {
 public:
  Workbench(const fs::path& topologies, const fs::path& models)
      : root_(fs::temp_directory_path() /
              ("fit_steps" + std::to_string(std::hash<std::string>{}(topologies.string())))),
        models_(models) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "calibration");
    for (const auto& entry : fs::directory_iterator(topologies))
      if (entry.path().filename() != "calibration")
        fs::create_symlink(fs::absolute(entry.path()), root_ / entry.path().filename());
    for (const auto& entry : fs::directory_iterator(topologies / "calibration"))
      if (entry.path().filename() != "steps.json")
        fs::create_symlink(fs::absolute(entry.path()), root_ / "calibration" / entry.path().filename());
  }
  ~Workbench() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  Workbench(const Workbench&) = delete;
  Workbench& operator=(const Workbench&) = delete;

  /// Mean over `rows` of a loss that outliers move little: |log(predicted / measured)| above 10 %, its square below.
  double loss(const nlohmann::ordered_json& steps, const std::vector<Measurement>& rows) const {
    std::ofstream(root_ / "calibration" / "steps.json") << steps.dump();
    double sum = 0;
    int n = 0;
    for (const ScoredRow& r : score(rows, {root_, models_}).rows) {
      if (!r.counts()) continue;
      const double e = std::log1p(r.error) / 0.1;
      sum += std::sqrt(1 + e * e) - 1;
      ++n;
    }
    return n > 0 ? sum / n : 0;
  }

  std::vector<Measurement> fitted_rows(const nlohmann::ordered_json& constant,
                                       const std::vector<Measurement>& all) const {
    const std::string generation = constant.value("generation", std::string()),
                      model = constant.value("model", std::string());
    const std::string gpu = constant.value("gpu", std::string());
    std::vector<Measurement> named, out;
    for (const Measurement& m : all)
      if (holds(m.source, constant.at("rows_of").get<std::string>())) named.push_back(m);
    const std::vector<ScoredRow> scored = score(named, {root_, models_}).rows;
    for (std::size_t i = 0; i < named.size(); i += constant.at("every").get<std::size_t>())
      if (scored[i].counts() && (generation.empty() || scored[i].row.job->generation == generation) &&
          (model.empty() || scored[i].row.job->model_kind == model) && (gpu.empty() || scored[i].row.job->gpu == gpu))
        out.push_back(named[i]);
    return out;
  }

 private:
  fs::path root_, models_;
};

/// Golden section on the logarithm, from a factor 1/1.6 to 1.6 of where it stands.
double least(double at, const std::function<double(double)>& loss) {
  constexpr double golden = 0.6180339887;
  double low = at / 1.6, high = at * 1.6;
  double a = high * std::pow(low / high, golden), b = low * std::pow(high / low, golden), fa = loss(a), fb = loss(b);
  for (int i = 0; i < 8; ++i) {
    if (fa < fb) {
      high = b, b = a, fb = fa;
      fa = loss(a = high * std::pow(low / high, golden));
    } else {
      low = a, a = b, fa = fb;
      fb = loss(b = low * std::pow(high / low, golden));
    }
  }
  return std::sqrt(low * high);
}

double rounded(double v) {
  const double unit = std::pow(10.0, 2 - std::floor(std::log10(std::abs(v))));
  return std::round(v * unit) / unit;
}

}  // namespace

int main(int argc, char* argv[]) try {
  if (argc < 4) {
    std::fputs("usage: rehearse_fit_steps TOPOLOGIES MODELS FILE...\n", stderr);
    return 2;
  }
  const fs::path topologies = argv[1], file = topologies / "calibration" / "steps.json";
  std::vector<Measurement> all;
  for (int i = 3; i < argc; ++i)
    for (Measurement& m : read_measurements(argv[i])) all.push_back(std::move(m));
  nlohmann::ordered_json steps = nlohmann::ordered_json::parse(read_text(file.string()));
  const Workbench bench(topologies, argv[2]);
  for (int round = 0; round < 2; ++round)
    for (std::size_t at = 0; at < steps.at("constants").size(); ++at) {
      auto& constant = steps.at("constants").at(at);
      (void)bench.loss(steps, {});
      const std::vector<Measurement> rows = bench.fitted_rows(constant, all);
      if (rows.empty()) continue;
      const double before = constant.at("value").get<double>();
      constant["value"] = rounded(least(before, [&](double v) {
        nlohmann::ordered_json tried = steps;
        tried.at("constants").at(at)["value"] = v;
        return bench.loss(tried, rows);
      }));
      constant["rows"] = rows.size();
      std::printf("%s %s.%s: %g -> %g on %zu rows\n", constant.value("generation", "").c_str(),
                  constant.at("group").get<std::string>().c_str(), constant.at("constant").get<std::string>().c_str(),
                  before, constant.at("value").get<double>(), rows.size());
      std::fflush(stdout);
    }
  std::ofstream(file) << steps.dump(1) << "\n";
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
