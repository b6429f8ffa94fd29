#include "core/estimate/quick/pass_memory.hpp"

#include <algorithm>

namespace rehearse {

void PassMemoryWalk::add(const MemoryCall& call, int times) {
  if (times <= 0) return;
  const BodyCurve& c = *call.curve;
  for (std::size_t s = 0; s < out_.host_kept.size(); ++s) {
    const double up = c.host_up[s], net = up - c.host_down[s];
    double& most = out_.host_most[s];
    most = std::max(most, out_.host_kept[s] + up + std::max(0.0, net * (times - 1)));
    out_.host_kept[s] += net * times;
  }
  Amounts each = c.at_end;
  look(call, 0, each, 0);
  if (call.on_compute) {
    subtract(each, c.beside);
  } else {
    for (std::size_t i = 0; i < each.size(); ++i) out_.leaving[i] += c.beside[i] * times;
  }
  if (call.on_compute && call.has_tasks) {
    kernels_ = true;
    subtract(now_, out_.leaving);
    out_.leaving = {};
  }
  rehearse::add(now_, each);
  now_in_all_ = sum(now_);
  if (times == 1) return;
  const double each_in_all = sum(each);
  for (const int i : {0, times - 2}) look(call, i, each, each_in_all);
  for (std::size_t i = 0; i < each.size(); ++i) now_[i] += each[i] * (times - 1);
  now_in_all_ += each_in_all * (times - 1);
}

void PassMemoryWalk::add(const std::vector<MemoryCall>& calls, int times) {
  if (calls.size() == 1) return add(calls.front(), times);
  for (int i = 0; i < times; ++i)
    for (const MemoryCall& call : calls) add(call);
}

PassMemory PassMemoryWalk::result() {
  out_.kept = now_;
  subtract(out_.kept, out_.leaving);
  out_.kept_in_all = sum(out_.kept);
  out_.leaving_in_all = sum(out_.leaving);
  return out_;
}

void PassMemoryWalk::look(const MemoryCall& call, int before, const Amounts& each, double each_in_all) {
  double& most = kernels_ ? out_.after : out_.until_kernels;
  const double in_all = now_in_all_ + call.peak + each_in_all * before;
  if (in_all <= most) return;
  most = in_all;
  Amounts& here = kernels_ ? out_.at_after : out_.at_until;
  here = now_;
  for (std::size_t i = 0; i < here.size(); ++i) here[i] += call.curve->at_peak[i] + each[i] * before;
}

}  // namespace rehearse
