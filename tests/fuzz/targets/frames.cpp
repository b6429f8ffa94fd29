// What comes in at the rendezvous's port.

#include "gpu_backend/communicate/net/frame.hpp"
#include "tests/fuzz/target.hpp"

namespace rehearse::fuzz::frames {

namespace {

const net::RunName kRun{"00000000000000000000000000000000", 2};

void run_one(std::string_view bytes) {
  const net::Parsed read = net::parse(kRun, bytes);
  if (read.known != net::Known::whole) return;
  require(read.bytes <= bytes.size(), "a frame longer than what came");
  require(net::encode(kRun, read.frame) == bytes.substr(0, read.bytes), "a frame that is written otherwise");
}

std::vector<std::string> made() {
  return {net::encode(kRun, {net::Ask::set, "rank/0", "127.0.0.1:1234"}),
          net::encode(kRun, {net::Ask::get, "rank/1", {}}), net::encode({"stranger", 2}, {net::Ask::fail, {}, "gone"})};
}

const bool registered = targets().add(
    {"rendezvous",
     "what ranks say to the rendezvous",
     {},
     {.run = run_one, .made = made, .limits = {0, "keys of 4,096 bytes, values of 16,777,216", nullptr}}});

}  // namespace

}  // namespace rehearse::fuzz::frames
