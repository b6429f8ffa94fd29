#pragma once
// What ranks say to the rendezvous: frames that name their run first. A stranger's bytes (a port scanner's, another
// run's rank) are told apart by the first few of them, before anything that they claim is believed.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rehearse::net {

/// The run that a process belongs to.
struct RunName {
  std::string id;  ///< Handed out by the launcher; of at most kLongestRunId bytes. Empty: the launcher gives none.
  int ranks = 0;
};
inline constexpr std::size_t kLongestRunId = 96;

/// A run's id for one that is launched here: 32 hexadecimal digits that nobody can guess.
[[nodiscard]] std::string fresh_run_id();

/// A frame is a head of kHeadBytes (the run, what is asked, the lengths of the texts), a key and a value.
/// `hello` asks for nothing: it says whose connection it is. One that ends without a `goodbye` is the end of its rank.
enum class Ask : char { hello = 'h', set = 's', get = 'g', fail = 'f', watch = 'w', goodbye = 'b' };
struct Frame {
  Ask ask = Ask::get;
  std::string key, value;
};
inline constexpr std::size_t kHeadBytes = 4 + kLongestRunId + 4 + 1 + 4 + 4;
inline constexpr std::uint32_t kLongestKey = 4096;        ///< Bytes.
inline constexpr std::uint32_t kLongestValue = 16 << 20;  ///< Bytes: addresses of some ten thousand ranks.

[[nodiscard]] std::string encode(const RunName& run, const Frame& frame);

/// What the bytes that have come so far are.
enum class Known {
  unfinished,  ///< They may become a frame.
  whole,       ///< They begin with one.
  other_run,   ///< One of this program's, but of another run or with another number of ranks.
  garbage      ///< No frame, or a longer one than any.
};
struct Parsed {
  Known known = Known::unfinished;
  Frame frame;
  std::size_t bytes = 0;  ///< Of the frame.
};
[[nodiscard]] Parsed parse(const RunName& run, std::string_view bytes);

}  // namespace rehearse::net
