#pragma once
// Collectives and messages between ranks of one machine, through memory that they share: without the copies into and
// out of the system that TCP makes, and without a thread that polls beside computing. Calls run one after the other on
// a thread of the communicator's, or of the channel's end.

#include <memory>
#include <string>

#include "gpu_backend/communicate/communicator.hpp"
#include "gpu_backend/communicate/memory/pipes.hpp"

namespace rehearse {

/// Member `member` of `members`. Connects with the first call.
[[nodiscard]] std::unique_ptr<Communicator> memory_communicator(MeetingBoard board, std::string name, int member,
                                                                int members);
/// One end of a channel.
[[nodiscard]] std::unique_ptr<Channel> memory_channel(MeetingBoard board, std::string name, bool sends);

}  // namespace rehearse
