// Names are for people: no source reads out of the name of a stream, message, tensor, body, task or span what it is
// for.

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "core/base/index.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

namespace fs = std::filesystem;

namespace {

/// What makes, prices, plays, executes or draws Programs. Elsewhere names are what a user or another program wrote.
const std::vector<std::string> kFolders{
    "core/model/families", "core/program",    "core/schedule", "core/strategy", "core/price",
    "core/estimate",       "core/play",       "core/search",   "core/report",   "core/trace",
    "core/lesson",         "core/scoreboard", "core/cluster",  "gpu_backend",   "sim"};

struct Allowed {
  const char* file;
  const char* text;  ///< On the line.
  const char* why;
};
const std::vector<Allowed> kAllowed{
    {"core/cluster/placement.cpp", "name.", "a host file's words"},
    {"core/cluster/what_if.cpp", "name", "a user's pattern"},
    {"core/price/kernels/kernel.cpp", "name", "groups of a calibration file"},
    {"core/price/calibration/", "name", "groups of a calibration file"},
    {"core/price/cost_model.cpp", "item.what.", "groups of a calibration file"},
    {"core/scoreboard/rows/", "", "words of measurement files"},
    {"core/lesson/", "name.find('.')", "figures that a lesson's text names"},
    {"core/strategy/roles/frame_setup.cpp", "name == \"", "a scenario's placement"},
    {"gpu_backend/train/checkpoint.cpp", "\"step-\"", "folders of checkpoints"},
    {"gpu_backend/calibrate/calibrate.cpp", "what.name == \"add\"", "a measured operator's name"},
    {"gpu_backend/train/initial.cpp", "{layer}", "fills the layer's number into a name"},
    {"core/search/", "starts_with(kSearchedGroup)", "the group of a scenario's key"},
    {"sim/simgrid_facade.cpp", "get_name()", "SimGrid's own models"},
    {"core/strategy/bodies/body_builder.cpp", "find('@')", "makes a name of a name"},
};

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool allowed(const std::string& file, const std::string& line) {
  for (const Allowed& a : kAllowed)
    if (file.starts_with(a.file) && line.find(a.text) != std::string::npos) return true;
  return false;
}

const std::regex& forbidden() {
  static const std::regex kForbidden(
      // x.name.find(...), name.starts_with(...), streams[i].name.rfind(...)
      R"re((\bname|\bname\(\)|\bwhat|\bvariant)\s*\.\s*)re"
      R"re((find|rfind|starts_with|ends_with|contains|compare)\()re"
      // streams[i].rfind(...)
      R"re(|streams(\[[^\]]*\]|\.at\([^)]*\))+\s*\.\s*(find|rfind|starts_with|ends_with|compare)\()re"
      // nth(p.streams, i).rfind(...)
      R"re(|\bnth\([\w.>-]*streams,[^)]*\)\s*\.\s*(find|rfind|starts_with|ends_with|compare)\()re"
      // name == "..."
      R"re(|(\bname|\bname\(\))\s*(==|!=)\s*"|"\s*(==|!=)\s*[a-z_.>-]*\bname\b)re"
      // streams[i] == "..."
      R"re(|streams\[[^;]*\](\.name)?\s*(==|!=)\s*")re");
  return kForbidden;
}

bool reads_a_name(const std::string& line) {
  const std::string code = line.substr(0, line.find("//"));
  return std::regex_search(code, forbidden());
}

}  // namespace

TEST_CASE("the pattern knows a meaning that is read from a name") {
  CHECK(reads_a_name(R"(if (body.name.find("activations") != std::string::npos))"));
  CHECK(reads_a_name(R"(if (t.name.ends_with(".loss.logits_grad_fp32")))"));
  CHECK(reads_a_name(R"(if (p.streams[s] == "dp") dp = s;)"));
  CHECK(reads_a_name(R"(if (nth(p.streams, task.stream).rfind("dp", 0) == 0) return false;)"));
  CHECK(reads_a_name(R"(return trace.streams[stream].starts_with("dp");)"));
  CHECK(reads_a_name(R"(return t.loaded && t.name != "noise";)"));
  CHECK(reads_a_name(R"(return c.task->variant.ends_with("_sinks");)"));
  CHECK_FALSE(reads_a_name(R"(if (e.name == wanted.name) return e;)"));
  CHECK_FALSE(reads_a_name(R"(const auto at = known_.find(name);)"));
  CHECK_FALSE(reads_a_name(R"(out.name = "activations"; // name == "x")"));
}

TEST_CASE("no source reads a meaning from a name") {
  for (const std::string& folder : kFolders)
    for (const auto& entry : fs::recursive_directory_iterator(rehearse::testing::source_path(folder))) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cpp" && extension != ".hpp" && extension != ".cu") continue;
      const std::string file = fs::relative(entry.path(), rehearse::testing::source_path(".")).generic_string();
      const std::string text = text_of(entry.path());
      int number = 1;
      for (std::size_t at = 0; at < text.size(); ++number) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string line = text.substr(at, end - at);
        at = end + 1;
        if (!reads_a_name(line) || allowed(file, line)) continue;
        FAIL_CHECK(file << ":" << number << " reads a meaning from a name:\n  " << line
                        << "\nGive what it asks for a typed field where the thing is made (StreamRole, MessageKind, "
                           "TensorRole, Phase, LayerPart, ...).");
      }
    }
}
