#pragma once
// Makes back end "simgrid" known.

namespace rehearse {

/// Enters "simgrid" in backends(); to be called once, by main.
void register_simgrid_backend();

}  // namespace rehearse
