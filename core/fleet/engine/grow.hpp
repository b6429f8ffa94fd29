#pragma once
// What is left after a look goes to elastic jobs.

namespace rehearse::fleet {

class Engine;

/// Where no job waits that could take them, running elastic jobs get free GPUs, in the policy's order.
void grow_elastic(Engine& engine);

}  // namespace rehearse::fleet
