#pragma once
// What parameters are called in other programs' files. A scheme of names is a file of topologies/weights:
//
//   { "schema": "rehearse/weight_names/v1",
//     "summary": "Llama, Mistral and Qwen of Hugging Face", "source": "where the names stand",
//     "prefix": "model.",                                       // files of the bare model lack it
//     "names": { "layer.{n}.attention.qkv.weight": [            // pieces, one after the other along dimension 0
//                  "model.layers.{n}.self_attn.q_proj.weight", ... ],
//                "layer.{n}.experts.fc2.weight": "model.layers.{n}.mlp.experts.{e}.down_proj.weight" },
//     "transposed": ["layer.{n}.mlp.fc1.weight"],               // stored as [in, out]
//     "also": {".weight": ".gamma"},                            // older spellings
//     "passed_over": [".rotary_emb.inv_freq"] }                 // ends of names that hold no parameter
//
// {n} counts the copies of a block from 0, {n+1} from 1, and {e} an expert's number, which the parameter's first
// dimension counts: its experts are one tensor here, and one each there.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rehearse {

/// A parameter as a Program has it.
struct NamedParameter {
  std::string name;  ///< "layer.3.attention.qkv.weight"
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> segments;  ///< As ParamSpec::segments.
};

/// A tensor of a file that holds consecutive elements of a parameter.
struct WeightPiece {
  std::string name;
  std::vector<std::int64_t> shape;  ///< As the file has it.
  bool transposed = false;          ///< Its two dimensions are exchanged.
  bool operator==(const WeightPiece&) const = default;
  [[nodiscard]] std::int64_t elements() const;
};

/// Pieces of every parameter, in the order of its elements.
using WeightPieces = std::map<std::string, std::vector<WeightPiece>>;

struct WeightNames {
  struct Entry {
    std::vector<std::string> pieces;
    bool transposed = false;
  };
  std::string name;  ///< Of the file, without ".json".
  std::string summary, prefix;
  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> also;
  std::vector<std::string> passed_over;

  /// Nothing where a parameter has no name here, or its pieces are not as many as its segments.
  [[nodiscard]] std::optional<WeightPieces> pieces_of(const std::vector<NamedParameter>& parameters) const;
  /// Spellings under which files may have a tensor, its own name first.
  [[nodiscard]] std::vector<std::string> spellings(const std::string& tensor) const;
  /// Whether a tensor of a file is known to hold no parameter.
  [[nodiscard]] bool passes_over(const std::string& tensor) const;
};

/// A parameter of one piece each, by its own name: what is used where no scheme fits.
[[nodiscard]] WeightPieces own_pieces(const std::vector<NamedParameter>& parameters);

/// The schemes of a folder, by name. Throws Error (usage) with file and JSON path.
[[nodiscard]] std::vector<WeightNames> read_weight_names(const std::string& folder);

}  // namespace rehearse
