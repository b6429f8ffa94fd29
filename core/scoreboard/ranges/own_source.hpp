#pragma once
// What a user's own measurements tell of that user's further steps.

#include <vector>

#include "core/scoreboard/ranges/source_effects.hpp"

namespace rehearse {

/// Steps of the user's, of one kind of job, and what was known of such steps without them.
struct OwnErrors {
  ErrorGroup group;
  ErrorOutlook before;
};

/// `before` is what is known of a step of `kind` from a source that nobody has seen; what is returned is known of a
/// step of the source that measured `own`.
///
/// Both are normal, and have in common the source's effect, the uncertain bias of a kind of model, and a source's
/// effect on a generation: the mean and variance are those that the seen steps leave (the conditional normal
/// distribution; for one kind of job the familiar precision-weighted mean). The rest is drawn towards what the own
/// steps show of it.
[[nodiscard]] ErrorOutlook outlook_with_own(const ErrorOutlook& before, const PredictionKind& kind,
                                            const std::vector<OwnErrors>& own);

}  // namespace rehearse
