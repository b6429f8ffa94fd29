#include "tests/unit/scoreboard/rows.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

std::string refusal_measurement(const std::string& text, const std::string& name) {
  try {
    (void)parse_measurements(text, name);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

const std::string kHeader =
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor parallelism,data "
    "parallelism,pipeline parallelism,iteration time (ms)";

}  // namespace

TEST_CASE("entries become rows with their fields") {
  const Measurement m = row_of(row_json());
  CHECK(m.id == "a");
  CHECK(m.malformed.empty());
  CHECK(std::get<double>(m.config.at("hidden")) == 4096);
  CHECK(std::get<bool>(m.config.at("sequence_parallel")));
  CHECK(std::get<std::string>(m.config.at("gpu_type")) == "H100-SXM5-80GB");
  CHECK(std::get<double>(m.measured.at("tokens_per_s_per_gpu")) == 512);
}

TEST_CASE("what one row gets wrong stays with it") {
  const auto rows = parse_measurements(
      R"({"entries": [7, {"id": "x", "config": [], "measured": {}}, {"id": 3, "config": {}, "measured": {}},
      {"id": "y", "config": {}},
    {"id": "z", "config": {}, "measured": {}, "from_memory": "yes"}, {"id": "w", "config": {}, "measured": {}},
    {"id": "w", "config": {}, "measured": {}}]})",
      "f.json");
  REQUIRE(rows.size() == 7);
  CHECK(rows[0].malformed == "no object");
  CHECK(rows[0].id == "f:1");
  CHECK(rows[1].malformed == "'config' is no object");
  CHECK(rows[2].malformed == "'id' is no text");
  CHECK(rows[3].malformed == "'measured' is missing");
  CHECK(rows[4].malformed == "'from_memory' is neither true nor false");
  CHECK(rows[5].malformed.empty());
  CHECK(rows[6].malformed == "the id 'w' stands twice");
  CHECK(rows[6].id == "w#7");
}

TEST_CASE("CSV rows on more GPUs than a node has are of another source") {
  const auto rows = parse_measurements(kHeader +
                                           "\n8,32,4,1024,16,24,1024,2,2,2,219.7\n64,512,8,3072,32,30,2048,1,64,1,3566."
                                           "5\n,32,4,1024,16,24,1024,2,2,2,219.7\n",
                                       "runs.csv");
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].source == kCsvSource);
  CHECK(rows[1].source == kCsvNodesSource);
  CHECK(rows[2].source == kCsvSource);
}

TEST_CASE("a file that is no measurement file is refused") {
  CHECK(refusal_measurement("{}", "f.json") == "no list of measurements");
  CHECK(refusal_measurement(R"({"entries": 5})", "f.json") == "no list of measurements");
  CHECK(refusal_measurement("{\"entries\": [", "f.json") != "accepted");
  CHECK(refusal_measurement("a,b,c\n1,2,3\n", "f.csv") == "no column of a measurement file");
  CHECK(refusal_measurement("", "f.csv") == "no column of a measurement file");
}

TEST_CASE("CSV rows are numbered, and have the fields of JSON ones") {
  const auto rows = parse_measurements(
      "\xEF\xBB\xBF" + kHeader + ",remark\r\n8,32,4,1024,16,24,1024,2,2,2,219.7,warm\r\n\r\n8,32,nan,1024\n",
      "runs.csv");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].id == "runs:1");
  CHECK(rows[0].source == kCsvSource);
  CHECK(rows[0].malformed.empty());
  CHECK(std::get<double>(rows[0].config.at("tp")) == 2);
  CHECK(std::get<double>(rows[0].config.at("gpus")) == 8);
  CHECK(std::get<double>(rows[0].measured.at("iteration_time_ms")) == Approx(219.7));
  CHECK(std::get<std::string>(rows[0].config.at("remark")) == "warm");
  CHECK(rows[1].malformed == "4 cells for 12 columns");
  CHECK(std::get<std::string>(rows[1].config.at("micro_batch")) == "nan");
}
