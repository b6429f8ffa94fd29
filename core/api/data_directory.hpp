#pragma once
// Where the catalogue, the calibration and the shipped models are.

#include <filesystem>

namespace rehearse {

/// A folder that holds `topologies` and `scenarios`, as the source tree and share/rehearse of an installed copy do.
struct DataDirectory {
  std::filesystem::path root;
  [[nodiscard]] std::filesystem::path topologies() const { return root / "topologies"; }
  [[nodiscard]] std::filesystem::path prediction_errors() const { return topologies() / "prediction_errors.json"; }
  [[nodiscard]] std::filesystem::path first_errors() const { return topologies() / "first_errors.json"; }
  [[nodiscard]] std::filesystem::path glossary() const { return topologies() / "glossary.json"; }
  [[nodiscard]] std::filesystem::path weight_names() const { return topologies() / "weights"; }
  [[nodiscard]] std::filesystem::path frameworks() const { return topologies() / "frameworks"; }
  [[nodiscard]] std::filesystem::path calibration() const { return topologies() / "calibration"; }
  [[nodiscard]] std::filesystem::path models() const { return root / "scenarios" / "models"; }
  [[nodiscard]] std::filesystem::path lessons() const { return root / "scenarios" / "lessons"; }
  [[nodiscard]] std::filesystem::path tasks() const { return root / "scenarios" / "tasks"; }
  [[nodiscard]] std::filesystem::path published() const { return root / "scenarios" / "published"; }
};

/// The first of these that holds a folder `topologies`: $REHEARSE_DATA (and then nothing else), what was made known by
/// add_installed_data(), ../share/rehearse beside the program, the source tree that this library was built from. Throws
/// Error (usage) where there is none.
[[nodiscard]] DataDirectory find_data();

/// `folder`, where nothing is searched and no variable is read, or find_data() where it is empty: what the member
/// `data` of every options struct means. Throws Error (usage) for a folder without `topologies`.
[[nodiscard]] DataDirectory data_in(const std::filesystem::path& folder);

/// Makes an installed copy's folder known to find_data(): its data are of the library's own version, which those beside
/// a program need not be. find_package(rehearse) calls it in programs that it builds, and the Python module when it is
/// imported. Not while other threads use the library.
bool add_installed_data(const std::filesystem::path& folder);

}  // namespace rehearse
