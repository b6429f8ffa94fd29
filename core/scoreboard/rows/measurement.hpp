#pragma once
// Files of published measurements, read row by row. Two forms: JSON with `entries` of {id, source, config, measured,
// notes, from_memory}, and CSV with the columns of a single-node profile (GPUs, batch, sizes, degrees of parallelism,
// iteration time in ms).
//
// What a file as a whole gets wrong is an error; what one row gets wrong stays with that row, so that the others can be
// predicted.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/scoreboard/rows/row_defaults.hpp"

namespace rehearse {

using Fields = std::map<std::string, FieldValue, std::less<>>;

struct Measurement {
  std::string id;      ///< As the file says, else "FILE:NUMBER". Unique within its file.
  std::string source;  ///< Citation.
  std::string file;    ///< Name without folder and suffix.
  int number = 0;      ///< Place in the file, from 1.
  Fields config;       ///< What was run.
  Fields measured;     ///< Figures, with their units in the name: iteration_time_s, tokens_per_s_per_gpu, ...
  std::string notes;
  bool from_memory = false;
  std::string malformed;  ///< What is wrong with the row; empty where nothing is.
  /// What its file says of all its rows, `file_meta.defaults`; null where it says nothing.
  std::shared_ptr<const RowDefaults> defaults;
};

/// All rows of the file at `path`, in order. Throws Error (usage): unreadable or too large, neither form, JSON that
/// does not parse, no rows where entries should be, defaults that nobody can read, a CSV header without any known
/// column. Rows whose members have the wrong type, that lack `config` or `measured`, or repeat an id, are returned with
/// `malformed` set. Unknown members and columns are kept as fields.
[[nodiscard]] std::vector<Measurement> read_measurements(const std::string& path);
/// The same from text. `name` is the path, for messages and ids; a name that ends in ".csv" is read as CSV.
[[nodiscard]] std::vector<Measurement> parse_measurements(std::string_view text, const std::string& name);

/// What `source` of a CSV row is: its columns are those of one profile's two files, whose software is stated once for
/// each (topologies/row_defaults.json). Rows of at most kCsvNodeGpus GPUs are of the first.
inline constexpr const char* kCsvSource =
    "single-node CSV (columns of VIA-Research/vTrain's Megatron-DeepSpeed profile)";
inline constexpr const char* kCsvNodesSource =
    "multi-node CSV (columns of VIA-Research/vTrain's Megatron-DeepSpeed profile)";
inline constexpr double kCsvNodeGpus = 8;

/// "8", "true", "A100": as messages show a value; empty for an absent one.
[[nodiscard]] std::string text_of(const FieldValue& value);

}  // namespace rehearse
