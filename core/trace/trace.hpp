#pragma once
// Traces: what every back end, simulated or real, reports. Reports are drawn from traces alone.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/index.hpp"
#include "core/base/units.hpp"

namespace rehearse {

/// Where the time of a rank's step goes; the rows of the breakdown. Everything a rank does while its compute stream
/// waits is exposed communication of the axis it waits for while bytes move, and bubble while it waits for other ranks.
enum class TimeCategory : std::uint8_t {
  matmul,
  attention,
  memory_bound,
  loss,
  recompute,
  launch,
  overlap_slowdown,
  optimizer,
  exposed_tp,
  exposed_cp,
  exposed_ep,
  exposed_dp,
  exposed_pp,
  exposed_tile,
  exposed_copy,
  input,
  bubble
};
inline constexpr int kTimeCategories = 17;
/// "matmul", "exposed_tp", ...: also the keys of JSON's breakdown.
[[nodiscard]] std::string_view name_of(TimeCategory c);

struct Breakdown {
  std::array<Seconds, kTimeCategories> seconds{};
  Seconds& operator[](TimeCategory c) { return nth(seconds, c); }
  const Seconds& operator[](TimeCategory c) const { return nth(seconds, c); }
  [[nodiscard]] Seconds total() const;
  Breakdown& operator+=(const Breakdown& other);
  Breakdown& operator*=(double k);
};

enum class SpanKind : std::uint8_t { compute, collective, send, receive, copy, host, input, wait };

/// One interval on one stream of one rank.
struct Span {
  int rank = 0;
  int stream = 0;
  SpanKind kind = SpanKind::compute;
  TimeCategory category = TimeCategory::matmul;
  std::string name;  ///< "forward", "backward", "layer 3 attention.qkv"
  Seconds begin, end;
  int layer = -1, chunk = -1, microbatch = -1;
  bool backward = false;
  bool weight_gradients = false;  ///< The half of a backward pass that makes nothing else (zero-bubble schedules).
  int body = -1;                  ///< The body of the Program that it is the whole of; -1: a task of one.
  /// Payload of one rank, for communication: for collectives the larger of what it puts in and gets out.
  Bytes bytes;
  std::string group;       ///< Communicator name, for communication.
  std::string collective;  ///< "all_reduce", ...
  int group_size = 0;
  DType dtype = DType::uint8;  ///< Of the elements in `bytes`; uint8 where only their bytes are known.
  /// The same number at both ends of one point-to-point message, and at no other span; -1: none.
  std::int64_t message = -1;
  int peer = -1;  ///< Rank at the message's other end; -1 where it is not known.
};

/// What one rank did in the measured step.
struct RankMetrics {
  int rank = 0;
  int role = 0;
  int stands_for = 1;   ///< Ranks that do the same at the same times, itself among them.
  Breakdown breakdown;  ///< Adds up to the step time.
  /// Per stream: time with an op active on it (waiting for partners not counted), per step where several were played.
  std::vector<Seconds> stream_busy;
};

/// Consumer of a run. Calls come in no particular order of time.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  /// Whether spans of this rank are wanted; metrics always are.
  [[nodiscard]] virtual bool wants(int rank) const = 0;
  /// About so many spans will come: told before the first.
  virtual void expect(std::size_t /*spans*/) {}
  virtual void span(Span span) = 0;
};

/// Keeps everything in memory.
class Trace final : public TraceSink {
 public:
  explicit Trace(std::vector<int> ranks) : ranks_(std::move(ranks)) {}
  [[nodiscard]] bool wants(int rank) const override;
  void expect(std::size_t more) override { spans.reserve(spans.size() + more); }
  void span(Span span) override { spans.push_back(std::move(span)); }

  std::vector<std::string> streams;  ///< Names by index.
  std::vector<Span> spans;

 private:
  std::vector<int> ranks_;
};

}  // namespace rehearse
