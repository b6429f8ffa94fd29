#pragma once
// Encoders, BERT and its like: what tells them from other networks, and heads that work on masked positions alone.

#include <cstdint>

#include "core/config/settings/training.hpp"
#include "core/model/network.hpp"

namespace rehearse {

/// Whether every attention sees the tokens after its own as well, and there is one.
[[nodiscard]] bool encodes(const Network& network);

/// training.predicted_positions: positions of a sequence whose words an encoder's head predicts; 0: all of them.
[[nodiscard]] std::int64_t predicted_positions(const TrainingSettings& training);

/// Whether that leaves out any of a sequence's tokens. Models that predict the next token predict all.
[[nodiscard]] bool predicts_some(const Network& network, const TrainingSettings& training);

/// `network` with a head that gathers `count` positions of each sequence and works on those alone, as BERT's own code
/// does (google-research/bert, run_pretraining.py, gather_indexes): products, norms, logits and loss are of [batch,
/// count, ..], and so are FLOPs and memory. As given unless predicts_some(network, training), which asks for the length
/// of a sequence.
///
///   network = with_predicted_positions(std::move(network), scenario.training);
[[nodiscard]] Network with_predicted_positions(Network network, const TrainingSettings& training);

}  // namespace rehearse
