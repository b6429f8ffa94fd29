#include "core/scoreboard/kernel_rows.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/cluster/make_cluster.hpp"
#include "core/collective/collective.hpp"
#include "core/price/kernel_tables.hpp"
#include "core/price/kernels/kernel.hpp"
#include "core/scoreboard/rows/row_defaults.hpp"
#include "core/scoreboard/rows/row_machine.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

constexpr const char* kProducts = "gpu,source,operator,batch,m,n,k";
constexpr const char* kAttention = "id,gpu,implementation,pass";

std::string header_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(ErrorKind::usage, "cannot be read", path);
  std::string line;
  std::getline(in, line);
  return line;
}

class Kernels {
 public:
  explicit Kernels(const fs::path& topologies) : catalogue_(topologies), calibration_(topologies / "calibration") {}

  std::vector<KernelRow> products(TableReader& reader, const std::string& file) {
    std::vector<KernelRow> out;
    for (const GemmRow& row : read_gemms(reader, file)) {
      const std::string what = row.one_by_one ? "products of groups" : "products";
      KernelRow r{row.gemm.id, what + " on " + row.gpu, false, {}, row.gemm.time, {}, what};
      const Priced& priced = priced_on(row.gpu, "");
      const KernelTime time = priced.model.price(kernel_of(row));
      r.predicted = time.time;
      // Fits read products of GPUs that gave constants, and none off 16 bytes.
      r.fitted = in_fit_half(row.gemm.shape) && !time.misaligned && priced.products_measured;
      if (row.gemm.shape.m >= 1024 && !row.one_by_one)
        long_[row.gpu].push_back({row.gemm.shape.m, row.gemm.shape.n > row.gemm.shape.k, r});
      out.push_back(std::move(r));
    }
    return out;
  }

  std::vector<KernelRow> attention(TableReader& reader, const std::string& file) {
    std::vector<KernelRow> out;
    for (const AttentionRow& row : read_attention(reader, file)) {
      const AttentionShape& s = row.attention.shape;
      KernelRow r{row.attention.id,
                  fmt::format("attention {} d{:.0f} on {}", row.implementation, s.head_dim, row.gpu),
                  in_fit_half(row.attention),
                  {},
                  row.attention.time,
                  {},
                  fmt::format("attention d{:.0f}", s.head_dim)};
      const KernelModel& m = priced_on(row.gpu, row.kernel()).model;
      r.predicted = m.price(make_flash_attention(s, row.type)).time;
      if (row.attention.with_backward) r.predicted += m.price(make_flash_attention(s, row.type, true)).time;
      out.push_back(std::move(r));
    }
    return out;
  }

  /// Four rows at about as many tokens, two that widen and two that narrow: what a layer runs.
  std::vector<KernelRow> sums() const {
    std::vector<KernelRow> out;
    for (const auto& [gpu, rows] : long_)
      for (const bool fitted : {true, false}) add_sums(gpu, fitted, rows, out);
    return out;
  }

 private:
  struct Long {
    double m;
    bool widens;
    KernelRow row;
  };
  struct Priced {
    Priced(KernelModel kernels, bool measured) : model(std::move(kernels)), products_measured(measured) {}
    KernelModel model;
    bool products_measured;
  };

  static void add_sums(const std::string& gpu, bool fitted, const std::vector<Long>& rows,
                       std::vector<KernelRow>& out) {
    std::array<std::vector<Long>, 2> sorted;
    for (const Long& l : rows)
      if (l.row.fitted == fitted) sorted[l.widens ? 1 : 0].push_back(l);
    for (auto& s : sorted) std::stable_sort(s.begin(), s.end(), [](const Long& a, const Long& b) { return a.m < b.m; });
    const std::size_t layers = std::min(sorted[0].size(), sorted[1].size()) / 2;
    for (std::size_t i = 0; i < layers; ++i) {
      KernelRow sum{fmt::format("{} layer {}", gpu, i + 1),
                    "sums of four products on " + gpu,
                    fitted,
                    {},
                    {},
                    {},
                    "sums of four products"};
      for (const auto& s : sorted)
        for (std::size_t j = 0; j < 2; ++j) {
          const Long& l = s[(2 * i + j) * s.size() / (2 * layers)];
          sum.predicted += l.row.predicted;
          sum.measured += l.row.measured;
        }
      out.push_back(std::move(sum));
    }
  }

  const Priced& priced_on(const std::string& gpu, const std::string& attention) {
    auto& at = priced_[{gpu, attention}];
    if (!at) {
      const std::shared_ptr<const GpuSpec> spec = catalogue_.gpu(gpu);
      const CalibrationProfile profile =
          load_calibration(calibration_, *spec, {.attention = attention, .bursts = true});
      const KernelCalibration* products = profile.find("gemm");
      at = std::make_unique<Priced>(
          KernelModel(*spec, profile),
          products != nullptr && std::count(products->measured_on.begin(), products->measured_on.end(), gpu) > 0);
    }
    return *at;
  }

  Catalogue catalogue_;
  fs::path calibration_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Priced>> priced_;
  std::map<std::string, std::vector<Long>> long_;
};

class Collectives {
 public:
  explicit Collectives(const fs::path& topologies) : catalogue_(topologies) {}

  void score(const Measurement& row, std::vector<KernelRow>& out) {
    KernelRow base{row.id, "collectives", false, {}, {}, {}, {}, true};
    try {
      const Run run = run_of(row);
      base.group = fmt::format("{} on {}, {} GPUs", name_of(run.op), run.machine, run.group.size());
      for (const auto& [bytes, time] : figures(row, run)) {
        KernelRow r = base;
        r.id = fmt::format("{}:{:.0f}", row.id, bytes.value());
        r.measured = time;
        r.predicted = run.model->choose(run.op, bytes, run.group).time;
        out.push_back(std::move(r));
      }
    } catch (const RowRefused& e) {
      base.skipped = e.why;
      out.push_back(std::move(base));
    } catch (const Error& e) {
      base.skipped = e.what();
      out.push_back(std::move(base));
    }
  }

 private:
  struct RowRefused {
    std::string why;
  };
  struct Run {
    CollectiveOp op;
    std::string machine;
    std::shared_ptr<const Cluster> cluster;
    std::unique_ptr<CollectiveModel> model;
    std::vector<DeviceId> group;
  };

  static double number(const Fields& fields, const char* name) {
    const auto at = fields.find(name);
    if (at == fields.end()) return 0;
    const auto* d = std::get_if<double>(&at->second);
    return d == nullptr ? 0 : *d;
  }
  static std::string text(const Fields& fields, const char* name) {
    const auto at = fields.find(name);
    return at == fields.end() ? std::string() : text_of(at->second);
  }

  Run run_of(const Measurement& row) const {
    const std::string said = text(row.config, "collective"), op = said.substr(0, said.find(' '));
    for (const char* known : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce"})
      if (op == known) return placed(row, parse_collective_op(op), holds(said, "NVLS off"));
    throw RowRefused{"no collective of NCCL's: " + said};
  }

  Run placed(const Measurement& row, CollectiveOp op, bool without_nvls) const {
    const std::string words = text(row.config, "gpu_type");
    const NamedMachine* named = machine_named(words);
    if (named == nullptr) throw RowRefused{"GPU unknown"};
    for (const char* other : {"omni-path", "nvlink bridge", "gke"})
      if (holds(words + " " + text(row.config, "inter_node"), other))
        throw RowRefused{fmt::format("no machine of the catalogue has its wires: {}", other)};
    double gpus = number(row.config, "gpus");
    if (gpus < 2) gpus = number(row.config, "ranks_from_busbw_ratio");
    if (gpus < 2) throw RowRefused{"field missing: gpus"};
    const int per_node = catalogue_.machine(named->machine)->gpus;
    int nodes = static_cast<int>(number(row.config, "nodes"));
    if (nodes < 1) nodes = (static_cast<int>(gpus) + per_node - 1) / per_node;
    const int used = static_cast<int>(gpus) / nodes;
    if (used * nodes != static_cast<int>(gpus) || used > per_node)
      throw RowRefused{fmt::format("{:.0f} GPUs do not stand on {} machines of {}", gpus, nodes, per_node)};
    const Placed site =
        nodes == 1 ? Placed{named->machine, "single_switch"} : site_of(words, text(row.config, "inter_node"), *named);
    ClusterSpec spec;
    spec.parts = {{site.machine, nodes}};
    spec.network = site.network;
    Run out{op, site.machine, std::make_shared<const Cluster>(make_cluster(catalogue_, spec)), nullptr, {}};
    CollectiveModel::Options options;
    if (without_nvls) options.algorithm = "^NVLS,NVLSTree";
    out.model = std::make_unique<CollectiveModel>(*out.cluster, options);
    for (int i = 0; i < static_cast<int>(gpus); ++i)
      out.group.push_back(out.cluster->first_device(i / used) + i % used);
    return out;
  }

  Placed site_of(const std::string& gpu_type, const std::string& inter_node, const NamedMachine& named) const {
    const std::string network = network_named(gpu_type + " " + inter_node, named.network);
    const Placed out = place(catalogue_, {named.machine, network.c_str(), named.sold}, inter_node, std::nullopt);
    if (!out.fits) throw RowRefused{"no machine of the catalogue has its wires: " + out.stated};
    return out;
  }

  static std::vector<std::pair<Bytes, Seconds>> figures(const Measurement& row, const Run& run) {
    std::vector<std::pair<Bytes, Seconds>> out;
    if (const std::string table = text(row.measured, "table"); !table.empty()) {
      for (const nlohmann::json& r : nlohmann::json::parse(table)) {
        const char* time = r.contains("time_us") ? "time_us" : "time_us_derived";
        // Worked out from a bandwidth that was printed with one digit or none, it is no figure.
        if (!r.contains("size_bytes") || !r.contains(time) ||
            (r.contains("busbw_GBps") && !r.contains("time_us") && r.at("busbw_GBps").get<double>() < 0.1))
          continue;
        out.emplace_back(Bytes{r.at("size_bytes").get<double>()}, Seconds{r.at(time).get<double>() * 1e-6});
      }
      return out;
    }
    const double bytes = number(row.config, "size_bytes"), bus = number(row.measured, "busbw_GBps");
    if (bytes <= 0 || bus <= 0) throw RowRefused{"no size with its time or bandwidth"};
    out.emplace_back(Bytes{bytes}, Seconds{bus_factor(run.op, static_cast<int>(run.group.size())) * bytes / bus / 1e9});
    return out;
  }

  Catalogue catalogue_;
};

using ErrorsByName = std::map<std::string, std::array<std::vector<double>, 2>>;

void append_groups(ErrorsByName&& errors, std::vector<KernelGroup>& out) {
  for (auto& [name, e] : errors) out.push_back({name, statistics(std::move(e[0])), statistics(std::move(e[1]))});
}

void append_groups(const std::vector<KernelRow>& rows, std::vector<KernelGroup>& out) {
  ErrorsByName errors;
  for (const KernelRow& r : rows)
    if (r.skipped.empty()) errors[r.group][r.fitted ? 0 : 1].push_back(r.error());
  append_groups(std::move(errors), out);
}

void append_kinds(const std::vector<KernelRow>& rows, std::vector<KernelGroup>& out) {
  ErrorsByName errors;
  std::map<std::string, std::set<std::string>> groups;
  for (const KernelRow& r : rows) {
    if (r.kind.empty() || !r.skipped.empty()) continue;
    errors[r.kind + ", all"][r.fitted ? 0 : 1].push_back(r.error());
    groups[r.kind + ", all"].insert(r.group);
  }
  std::erase_if(errors, [&](const auto& e) { return groups[e.first].size() < 2; });
  append_groups(std::move(errors), out);
}

}  // namespace

bool is_kernel_file(const std::string& path) {
  if (fs::path(path).extension() != ".csv") return false;
  const std::string header = header_of(path);
  return header.starts_with(kProducts) || header.starts_with(kAttention);
}

KernelBoard score_kernels(const std::vector<std::string>& files, const std::vector<Measurement>& rows,
                          const fs::path& topologies) {
  KernelBoard out;
  Kernels kernels(topologies);
  for (const std::string& file : files) {
    TableReader reader(fs::absolute(file).parent_path());
    const std::string name = fs::path(file).filename().string();
    for (KernelRow& r :
         header_of(file).starts_with(kProducts) ? kernels.products(reader, name) : kernels.attention(reader, name))
      out.rows.push_back(std::move(r));
  }
  Collectives collectives(topologies);
  for (const Measurement& row : rows)
    if (row.config.contains("collective")) collectives.score(row, out.rows);
  const std::vector<KernelRow> sums = kernels.sums();
  append_groups(out.rows, out.groups);
  append_groups(sums, out.groups);
  append_kinds(out.rows, out.groups);
  append_kinds(sums, out.groups);
  return out;
}

}  // namespace rehearse
