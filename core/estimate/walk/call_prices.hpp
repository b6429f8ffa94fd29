#pragma once
// What calls and messages of a walk take with their wires to themselves, each worked out once.

#include <map>
#include <tuple>

#include "core/play/clocks/lane_routes.hpp"
#include "core/price/cost_model.hpp"

namespace rehearse {

/// Bytes on the wire, as slow as the wire and the library make them with no other traffic.
struct CallPrice {
  double seconds = 0;
  double wait = 0;    ///< After that, with no load on kernels: the hosts of a blocking message.
  Interference load;  ///< What it takes from kernels beside it, at either end.
};

/// Of messages, whatever Program sends them.
class MessagePrices {
 public:
  explicit MessagePrices(const CostModel& cost) : cost_(cost), routes_(cost.cluster()) {}

  /// Where tensor-parallel ranks stand for one another: how many, and the distance of their devices. To be said before
  /// anything is asked.
  void set_lanes(int count, int stride) {
    lanes_ = count;
    stride_ = stride;
  }
  [[nodiscard]] int lanes() const { return lanes_; }

  struct Message {
    DeviceId from, to;
    double bytes;
    bool blocking;  ///< MessageEdge::blocking
    auto operator<=>(const Message&) const = default;
  };
  [[nodiscard]] const CallPrice& price(const Message& message);
  /// Of each lane between two devices, with no other traffic.
  [[nodiscard]] BytesPerSecond solo_rate(DeviceId from, DeviceId to) {
    return routes_.find(from, to, lanes_, stride_).solo_rate;
  }

 private:
  const CostModel& cost_;
  LaneRoutes routes_;
  int lanes_ = 1, stride_ = 1;
  std::map<Message, CallPrice> known_;
};

class CallPrices {
 public:
  CallPrices(const Program& program, const CostModel& cost) : p_(program), cost_(cost), messages_(cost) {}

  /// As MessagePrices::set_lanes.
  void set_lanes(int count, int stride) { messages_.set_lanes(count, stride); }

  struct Call {
    CollectiveOp op;
    int group;  ///< Program group ...
    int rank;   ///< ... of which this is a member.
    double bytes;
    CallOptions options;
    auto operator<=>(const Call&) const = default;
  };
  [[nodiscard]] const CallPrice& call(const Call& call);

  [[nodiscard]] const CallPrice& message(const MessagePrices::Message& message) { return messages_.price(message); }

 private:
  [[nodiscard]] CallPrice price(const Call& call);
  [[nodiscard]] double on_lanes(const Call& call, const std::vector<DeviceId>& devices);

  const Program& p_;
  const CostModel& cost_;
  MessagePrices messages_;
  std::map<Call, CallPrice> calls_;
};

}  // namespace rehearse
