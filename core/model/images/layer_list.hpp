#pragma once
// Networks as layer lists: files of schema rehearse/network/v1, for architectures that no family covers.
//
//   { "schema": "rehearse/network/v1",
//     "input": { "channels": 3, "height": 224, "width": 224 },        // "depth" too: volumes; "features" alone:
//     vectors "classes": 10, "blocks": [
//       { "name": "stem", "layers": [
//           { "op": "conv2d", "name": "conv", "out": 16, "kernel": 3, "padding": 1, "then": ["batch_norm", "relu"] },
//           { "op": "max_pool", "kernel": 2, "stride": 2 } ] },
//       { "name": "body", "repeat": 3, "layers": [
//           { "op": "conv2d", "name": "conv", "out": 16, "kernel": 3, "same": true, "then": ["batch_norm"] },
//           { "op": "add", "from": ["input", "conv.batch_norm"] } ] },
//       { "name": "head", "layers": [
//           { "op": "global_pool" }, { "op": "linear", "out": 10 }, { "op": "softmax_loss" } ] } ] }
//
// A layer reads what the layer before it made, or what "from" names: a layer of the block, "input" (what the block
// before handed on; "image" in the first block), or "BLOCK.LAYER" of an earlier block. A block hands on what its last
// layer made. Layers without a name are called after their op, numbered from the second on; those in "then" "NAME.OP".
// Blocks are what a pipeline distributes and what full recomputation forgets; "repeat" puts equal ones in a row.
//
// "weights" says what they begin with: "module" (as PyTorch's modules, the default), "he", "vgg" or "inception", as
// torchvision's networks of that name (ImageWeights in image_builder.hpp).
//
// Two networks that are trained against each other: "blocks" are the generator's, which makes an image, often of
// "noise": true in "input";
//     "discriminator": { "blocks": [ ..., { "name": "score", "layers": [ { "op": "linear", "out": 1 }, { "op":
//     "adversarial_loss" } ] } ] }
// are those of the network that is shown such images, and real ones.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/registry.hpp"
#include "core/config/object_reader.hpp"
#include "core/model/network.hpp"

namespace rehearse {

inline constexpr std::string_view kNetworkSchema = "rehearse/network/v1";

/// Whether the document is a layer list.
[[nodiscard]] bool is_layer_list(const nlohmann::json& document);

/// The network of a layer list; its name is `name`. "image_height" and "image_width" at the top replace the input's
/// sides. Throws Error (usage) with file and JSON path: unknown op or key (with the valid ones), a name that nothing
/// made, a window that does not fit, sides or channels that do not agree, a block whose copies do not follow on each
/// other.
[[nodiscard]] Network build_layer_list(ObjectReader& in, const std::string& name);

class ImageBuilder;

/// One kind of layer: adds its ops to the builder's last tensor. `from` are the tensors named, at least one.
struct LayerKind {
  void (*add)(ImageBuilder& net, const std::string& name, ObjectReader& layer, const std::vector<int>& from);
  /// It may stand anywhere, without keys: tests put it into networks that they draw and train.
  bool anywhere = false;
};

/// Kinds by the name in "op"; their parameters are the keys read. `explain layer:NAME` prints them. A file may add one
/// beside its operator (add_operator, ImageBuilder::unary).
[[nodiscard]] Registry<LayerKind>& layer_kinds();

}  // namespace rehearse
