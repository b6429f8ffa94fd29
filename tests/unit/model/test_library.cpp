#include <unistd.h>
#include <filesystem>
#include <fstream>

#include "models.hpp"

namespace rehearse::test {
namespace {
namespace fs = std::filesystem;

/// A directory of its own, removed at the end.
struct Scratch {
  fs::path path = fs::temp_directory_path() / ("rehearse_models_" + std::to_string(::getpid()));
  Scratch() { fs::create_directories(path); }
  ~Scratch() { fs::remove_all(path); }
  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((path / file).parent_path());
    std::ofstream(path / file) << text;
  }
};

std::string refused(const ModelLibrary& models, const std::string& model, const fs::path& base = {}) {
  try {
    (void)models.load(model, base);
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::usage);
    return std::string(e.what()) + " | " + e.where + " | " + e.hint;
  }
  return "accepted";
}

TEST_CASE("the library lists the directories that hold a config.json") {
  Scratch dir;
  dir.put("b/config.json", llama_json().dump());
  dir.put("a/config.json", llama_json().dump());
  dir.put("c/readme.txt", "");
  CHECK(ModelLibrary(dir.path).names() == std::vector<std::string>{"a", "b"});
  CHECK(ModelLibrary(dir.path / "nowhere").names().empty());
}

TEST_CASE("a model is a name, a file, a directory or its text") {
  Scratch dir;
  dir.put("models/mine/config.json", llama_json().dump());
  dir.put("models/other.json", llama_json().dump());
  const ModelLibrary models(dir.path / "models");
  const auto count = build(llama_json()).parameter_count();
  CHECK(models.load("mine").name == "mine");
  CHECK(models.load("models/mine/config.json", dir.path).name == "mine");
  CHECK(models.load("models/mine", dir.path).name == "mine");
  CHECK(models.load("other.json", dir.path / "models").name == "other");
  CHECK(models.load((dir.path / "models/other.json").string(), "elsewhere").parameter_count() == count);
  CHECK(models.load(" \n" + llama_json().dump()).parameter_count() == count);
}

TEST_CASE("a model that is not there is refused with what is") {
  const auto said = refused(library(), "llama3_80b");
  CHECK(said.find("llama3_80b") != std::string::npos);
  CHECK(said.find("llama3_8b") != std::string::npos);
  CHECK(refused(library(), "models/nothing/config.json", "/tmp").find("/tmp/models/nothing/config.json") !=
        std::string::npos);
  CHECK(refused(library(), "") != "accepted");
  CHECK(refused(library(), "/") != "accepted");
}

TEST_CASE("broken text is refused, never half read") {
  Scratch dir;
  const auto whole = llama_json().dump();
  dir.put("cut/config.json", whole.substr(0, whole.size() / 2));
  dir.put("empty/config.json", "");
  dir.put("list/config.json", "[1, 2]");
  const ModelLibrary models(dir.path);
  for (const auto* name : {"cut", "empty", "list"}) {
    INFO(name);
    CHECK(refused(models, name).find(name) != std::string::npos);
  }
  CHECK(refused(models, whole.substr(0, whole.size() - 1)) != "accepted");
  CHECK(refused(models, R"({"model_type": "gpt2", "model_type": "llama"})") != "accepted");
}

}  // namespace
}  // namespace rehearse::test
