// Measurement rows in both forms, and the jobs that they become.

#include "core/api/data_directory.hpp"
#include "core/framework/framework.hpp"
#include "core/model/library.hpp"
#include "core/scoreboard/rows/row_scenario.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::fuzz::measurements {

namespace {

const RowSources& sources() {
  static const DataDirectory data = data_in(testing::source_path(""));
  static const RowDefaults defaults = RowDefaults::load(data.topologies() / "row_defaults.json");
  static const Frameworks frameworks = Frameworks::load(data.frameworks());
  static const ModelLibrary library(data.models());
  static const KnownModels models(library);
  static const RowSources all{defaults, frameworks, shipped(), models};
  return all;
}

/// Mapping never throws for what a row says, and what it maps has a scenario.
void map_rows(const std::vector<Measurement>& rows) {
  constexpr std::size_t kMapped = 8;  // A row takes a thousand times as long as its text.
  for (std::size_t i = 0; i < std::min(rows.size(), kMapped); ++i) {
    MappedRow mapped;
    try {
      mapped = map_row(rows[i], sources());
    } catch (const Error& e) {
      require(false, "a row throws in place of being passed over: " + std::string(e.what()));
    }
    require(mapped.job.has_value() == mapped.skipped.empty(), "a row is neither a job nor passed over");
    (void)scenario_text(mapped);
  }
}

void run_json(std::string_view bytes) { map_rows(parse_measurements(bytes, "fuzzed.json")); }
void run_csv(std::string_view bytes) { map_rows(parse_measurements(bytes, "fuzzed.csv")); }
void read_file(const std::string& path) { (void)read_measurements(path); }

std::vector<std::string> rows() {
  return {R"({"file_meta": {"defaults": [{"when": {"source": "some"}, "values": {"precision": "bf16"}}]},
  "entries": [{"id": "a", "source": "somebody 2024", "notes": "", "from_memory": false,
  "config": {"model": "llama3_8b", "gpus": 8, "gpu_type": "H100", "nodes": 1, "tp": 2, "pp": 1, "dp": 4,
             "micro_batch_size": 1, "global_batch_size": 128, "sequence_length": 8192, "precision": "bf16"},
  "measured": {"iteration_time_s": 7.5, "tokens_per_s_per_gpu": 11000, "mfu": 0.4}}]})"};
}

std::vector<std::string> tables() {
  return {"#GPU,batch,hidden,seq,layers,heads,t,d,p,m,iter_time(ms)\n8,16,2048,1024,24,16,2,2,2,1,523.1\n"};
}

/// The first rows of a shipped table: each takes a while.
std::vector<std::string> csv_seeds() {
  std::vector<std::string> out = tables();
  for (const char* file :
       {"vtrain_megatron_deepspeed_a100_single_node.csv", "vtrain_megatron_deepspeed_a100_multi_node.csv"}) {
    const std::vector<Seed> whole =
        seeds_of({"",
                  "",
                  {},
                  {.run = run_csv, .seeds = {{std::string("tests/published/data/") + file, ""}}, .longest = 1 << 20}});
    if (!whole.empty()) out.push_back(whole.front().bytes.substr(0, 800));
  }
  return out;
}

const bool registered_json = targets().add({"measurements_json",
                                            "measurement rows (JSON)",
                                            {},
                                            {.run = run_json,
                                             .seeds = {{"tests/published/data", ".json"}},
                                             .made = rows,
                                             .longest = 6144,
                                             .limits = {64'000'000, "64 deep", read_file}}});
const bool registered_csv = targets().add({"measurements_csv",
                                           "measurement rows (CSV)",
                                           {},
                                           {.run = run_csv, .made = csv_seeds, .limits = {64'000'000, "", read_file}}});

}  // namespace

}  // namespace rehearse::fuzz::measurements
