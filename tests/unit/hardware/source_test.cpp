// What a topology file must not get away with.

#include "tests/unit/hardware/topologies.hpp"

namespace rehearse {
namespace {

GpuSpec gpu_from(const nlohmann::json& file) { return read_gpu(file, "card.json", "card", shipped().interconnects()); }

/// The error of a shipped GPU after a change.
template <class Change>
Error broken_gpu(Change change) {
  auto file = shipped_json("gpus/l4");
  change(file);
  return error_of([&] { (void)gpu_from(file); });
}

}  // namespace

TEST_CASE("a group of figures without a source is refused with its place") {
  Error e = broken_gpu([](auto& file) { file["memory"].erase("source"); });
  CHECK(e.where == "card.json: /memory/source");
}

TEST_CASE("a cited source must exist, and a source must be cited") {
  Error unknown = broken_gpu([](auto& file) { file["pcie"]["source"] = "datashet"; });
  CHECK(unknown.where == "card.json: /pcie/source");
  Error unused = broken_gpu([](auto& file) {
    file["sources"]["spare"] = {{"text", "a book"}, {"evidence", "published"}};
  });
  CHECK(unused.what() == std::string("source 'spare' is cited by no figure"));
  Error evidence = broken_gpu([](auto& file) { file["sources"].begin().value()["evidence"] = "hearsay"; });
  CHECK(evidence.hint.find("datasheet") != std::string::npos);
}

TEST_CASE("figures need units, types need to be known, keys too") {
  CHECK(broken_gpu([](auto& file) { file["memory"]["bandwidth"] = 300e9; }).where == "card.json: /memory/bandwidth");
  CHECK(broken_gpu([](auto& file) { file["compute"]["peak_dense"]["fp17"] = "1TFLOP/s"; }).hint.find("fp16") !=
        std::string::npos);
  CHECK(broken_gpu([](auto& file) { file["memroy"] = 1; }).what() != std::string());
  CHECK(broken_gpu([](auto& file) { file["schema"] = "rehearse/gpu/v2"; }).where == "card.json: /schema");
  CHECK(broken_gpu([](auto& file) { file["compute"]["sm_count"] = 0; }).where == "card.json: /compute/sm_count");
}

TEST_CASE("notes are for readers and change nothing") {
  auto file = shipped_json("gpus/l4");
  file["notes"] = {"anything"};
  CHECK(gpu_from(file).memory == shipped().gpu("l4")->memory);
}

TEST_CASE("evidence is named") {
  for (Evidence e : {Evidence::measured_here, Evidence::published, Evidence::datasheet, Evidence::estimate})
    CHECK(parse_evidence(name_of(e)) == e);
  CHECK(error_of([] { (void)parse_evidence("publised"); }).hint.find("'published'") != std::string::npos);
}

}  // namespace rehearse
