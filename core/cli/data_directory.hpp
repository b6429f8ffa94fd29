#pragma once
// Where the catalogue, the calibration and the shipped models are.

#include <filesystem>

namespace rehearse::cli {

struct DataDirectory {
  std::filesystem::path root;
  [[nodiscard]] std::filesystem::path topologies() const { return root / "topologies"; }
  [[nodiscard]] std::filesystem::path prediction_errors() const { return topologies() / "prediction_errors.json"; }
  [[nodiscard]] std::filesystem::path glossary() const { return topologies() / "glossary.json"; }
  [[nodiscard]] std::filesystem::path calibration() const { return topologies() / "calibration"; }
  [[nodiscard]] std::filesystem::path models() const { return root / "scenarios" / "models"; }
  [[nodiscard]] std::filesystem::path lessons() const { return root / "scenarios" / "lessons"; }
  [[nodiscard]] std::filesystem::path published() const { return root / "scenarios" / "published"; }
};

/// The first of these that holds a folder `topologies`: $REHEARSE_DATA (and then nothing else), ../share/rehearse
/// beside the program, the source tree that the program was built from. Throws Error (usage) where there is none.
[[nodiscard]] DataDirectory find_data();

}  // namespace rehearse::cli
