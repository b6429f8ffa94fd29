// Ranks that meet, and strangers that must not matter to them.

#include <atomic>
#include <chrono>
#include <future>
#include <random>
#include <thread>

#include "core/base/error.hpp"
#include "gpu_backend/communicate/net/rendezvous.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::net;

namespace {

const RunName kRun{"a run of tests", 4};
constexpr const char* kHere = "127.0.0.1";

RendezvousClient::OnFailure nobody() {
  return [](const std::string& cause) { FAIL("told of " << cause); };
}

/// Sends bytes as a stranger would, and returns whether the other side then hangs up within a few seconds.
bool hung_up_on(const RendezvousServer& server, const std::string& bytes) {
  const Socket stranger = connect_to(kHere, server.port(), 5);
  if (!stranger.put(bytes.data(), bytes.size())) return true;
  std::string told;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (std::chrono::steady_clock::now() < until) {
    if (!stranger.take(told)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

bool settles_at(const RendezvousServer& server, std::size_t connections) {
  for (int i = 0; i < 1000 && server.connections() != connections; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return server.connections() == connections;
}

}  // namespace

TEST_CASE("the rendezvous tells everyone who has failed") {
  RendezvousServer server(kHere, 0, kRun);
  std::promise<std::string> told;
  RendezvousClient listening(kHere, server.port(), kRun, 0, [&](const std::string& cause) { told.set_value(cause); });
  RendezvousClient failing(kHere, server.port(), kRun, 3, [](const std::string&) { FAIL("told of its own failure"); });
  failing.fail("no space");
  CHECK(told.get_future().get() == "rank 3: no space");
  CHECK_THROWS_AS(listening.get("never set"), Error);
}

TEST_CASE("a value that is set later is waited for") {
  RendezvousServer server(kHere, 0, kRun);
  RendezvousClient a(kHere, server.port(), kRun, 0, nobody());
  RendezvousClient b(kHere, server.port(), kRun, 1, nobody());
  auto wanted = std::async(std::launch::async, [&] { return a.get("key"); });
  b.set("key", "value");
  CHECK(wanted.get() == "value");
}

TEST_CASE("an end without a goodbye is a death, one with it is not") {
  for (const Ask lost : {Ask::watch, Ask::hello}) {
    RendezvousServer server(kHere, 0, kRun);
    std::promise<std::string> told;
    RendezvousClient a(kHere, server.port(), kRun, 0, [&](const std::string& cause) { told.set_value(cause); });
    { const RendezvousClient polite(kHere, server.port(), kRun, 1, nobody()); }
    {
      const Socket dying = connect_to(kHere, server.port(), 5);
      const std::string first = encode(kRun, {lost, "2", {}});
      REQUIRE(dying.put(first.data(), first.size()));
    }
    CHECK(told.get_future().get() == "rank 2: its process or its connection has ended");
  }
}

TEST_CASE("strangers set no key and fail no run") {
  RendezvousServer server(kHere, 0, kRun);
  RendezvousClient a(kHere, server.port(), kRun, 0, nobody());
  const std::vector<Frame> wishes{{Ask::set, "key", "theirs"}, {Ask::fail, "0", "theirs"}, {Ask::watch, "1", {}}};
  for (const Frame& wish : wishes)
    for (const RunName& other : {RunName{"another run", 4}, RunName{"", 4}, RunName{kRun.id, 5}})
      CHECK(hung_up_on(server, encode(other, wish)));
  CHECK(hung_up_on(server, "GET / HTTP/1.1\r\n\r\n"));
  CHECK(hung_up_on(server, std::string(4096, '\0')));
  const Socket silent = connect_to(kHere, server.port(), 5);  // Half of a connection, and half of a frame.
  const Socket slow = connect_to(kHere, server.port(), 5);
  REQUIRE(slow.put("RH", 2));
  a.set("key", "ours");
  CHECK(a.get("key") == "ours");
}

TEST_CASE("a member of another run is told so") {
  RendezvousServer server(kHere, 0, kRun);
  std::promise<std::string> told;
  RendezvousClient lost(kHere, server.port(), {"another run", 4}, 0,
                        [&](const std::string& cause) { told.set_value(cause); });
  CHECK_THAT(told.get_future().get(), Catch::Matchers::ContainsSubstring("another run"));
}

TEST_CASE("a rank that joins twice, or that the run does not have, is named") {
  RendezvousServer server(kHere, 0, kRun);
  std::promise<std::string> first, beyond;
  RendezvousClient last(kHere, server.port(), kRun, 9, [&](const std::string& cause) { beyond.set_value(cause); });
  CHECK_THAT(beyond.get_future().get(), Catch::Matchers::ContainsSubstring("4 ranks"));
  RendezvousClient a(kHere, server.port(), kRun, 1, [&](const std::string& cause) { first.set_value(cause); });
  a.set("key", "value");
  RendezvousClient again(kHere, server.port(), kRun, 1, [](const std::string&) {});
  CHECK(first.get_future().get() == "rank 1: two processes have joined with this rank");
}

TEST_CASE("a rank that joins after a failure is told of it") {
  RendezvousServer server(kHere, 0, kRun);
  server.fail(2, "was killed");
  std::promise<std::string> told;
  RendezvousClient late(kHere, server.port(), kRun, 0, [&](const std::string& cause) { told.set_value(cause); });
  CHECK(told.get_future().get() == "rank 2: was killed");
}

TEST_CASE("what has been answered is closed") {
  RendezvousServer server(kHere, 0, kRun);
  RendezvousClient a(kHere, server.port(), kRun, 0, nobody());
  a.set("key", "value");
  for (int i = 0; i < 100; ++i) CHECK(a.get("key") == "value");
  CHECK(settles_at(server, 2));  // Its requests, and the one that is watched.
  for (std::size_t i = 0; i < 3 * kMostStrangers; ++i) CHECK(connect_to(kHere, server.port(), 5).fd() >= 0);
  CHECK(settles_at(server, 2));
}

TEST_CASE("more strangers than are borne make room for each other, not for the run's own") {
  RendezvousServer server(kHere, 0, kRun);
  RendezvousClient a(kHere, server.port(), kRun, 0, nobody());
  CHECK(settles_at(server, 2));  // Known, though it has asked for nothing yet.
  std::vector<Socket> crowd;
  for (std::size_t i = 0; i < 2 * kMostStrangers; ++i) crowd.push_back(connect_to(kHere, server.port(), 5));
  a.set("key", "value");
  CHECK(a.get("key") == "value");
  CHECK(settles_at(server, kMostStrangers + 2));
}

TEST_CASE("large values arrive whole, larger ones than are taken are refused") {
  RendezvousServer server(kHere, 0, kRun);
  RendezvousClient a(kHere, server.port(), kRun, 0, nobody());
  const std::string large(kLongestValue, 'x');
  a.set("large", large);
  CHECK(a.get("large") == large);
  CHECK_THROWS_AS(a.set("larger", large + "x"), std::logic_error);
  std::string claims = encode(kRun, {Ask::set, "k", "v"});
  claims[kHeadBytes - 1] = '\x7f';  // The highest byte of the value's length.
  CHECK(hung_up_on(server, claims));
}

TEST_CASE("every beginning of a frame may become one, and nothing else does") {
  std::mt19937 random(11);
  const Frame frame{Ask::set, "some key", std::string(300, '\7')};
  const std::string bytes = encode(kRun, frame);
  for (std::size_t n = 0; n < bytes.size(); ++n) CHECK(parse(kRun, {bytes.data(), n}).known == Known::unfinished);
  const Parsed whole = parse(kRun, bytes + "more");
  REQUIRE(whole.known == Known::whole);
  CHECK(whole.bytes == bytes.size());
  CHECK(whole.frame.key == frame.key);
  CHECK(whole.frame.value == frame.value);
  for (int i = 0; i < 2000; ++i) {
    std::string other = bytes;
    const std::size_t at = random() % (kHeadBytes - 9);  // What is asked and how long it is may be anything.
    other[at] = static_cast<char>(other[at] ^ (1 + random() % 255));
    INFO("byte " << at);
    CHECK(parse(kRun, other).known != Known::whole);
  }
}
