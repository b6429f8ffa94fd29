#include "core/fleet/fair_share.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace rehearse::fleet {

namespace {

double wanted(const ShareClaim& q) { return std::min(q.limit, q.request); }
bool satisfied(const ShareClaim& q) { return q.request <= q.share || q.limit <= q.share; }

/// Part of each queue of what is over, not yet normalised.
std::vector<double> parts_of(const std::vector<ShareClaim*>& queues, double k) {
  double weights = 0;
  for (const ShareClaim* q : queues)
    if (wanted(*q) > q->share) weights += q->weight;
  std::vector<double> parts(queues.size(), 0);
  if (weights == 0) return parts;
  for (std::size_t i = 0; i < queues.size(); ++i)
    if (!satisfied(*queues[i])) {
      const double w = queues[i]->weight / weights;
      parts[i] = std::max(0.0, w + k * (w - queues[i]->usage));
    }
  return parts;
}

/// Rounds among queues of one priority. `rests` gets what rounding kept from each.
double rounds(double total, const std::vector<ShareClaim*>& queues, double k, std::vector<double>& rests) {
  for (bool again = true; again && total > 0;) {
    again = false;
    const std::vector<double> parts = parts_of(queues, k);
    double sum = 0;
    for (const double p : parts) sum += p;
    if (sum == 0) break;
    const double round = total;
    for (std::size_t i = 0; i < queues.size() && total > 0; ++i) {
      ShareClaim& q = *queues[i];
      if (satisfied(q) || q.weight == 0) continue;
      const double asks = std::max(0.0, wanted(q) - q.share), part = round * parts[i] / sum;
      double give = asks;
      rests[i] = 0;
      if (asks > part) {
        give = std::floor(part);
        rests[i] = part - give;
      }
      if (give == 0) continue;
      q.share += give;
      total -= give;
      again = again || asks < part;
    }
  }
  return total;
}

}  // namespace

double divide_over_quota(double total, std::vector<ShareClaim>& queues, double k) {
  std::set<int, std::greater<>> priorities;
  for (const ShareClaim& q : queues) priorities.insert(q.priority);
  std::vector<std::pair<double, ShareClaim*>> rest_of_all;
  for (const int priority : priorities) {
    std::vector<ShareClaim*> equals;
    for (ShareClaim& q : queues)
      if (q.priority == priority) equals.push_back(&q);
    std::vector<double> rests(equals.size(), 0);
    total = rounds(total, equals, k, rests);
    std::vector<std::pair<double, ShareClaim*>> sorted;
    for (std::size_t i = 0; i < equals.size(); ++i)
      if (rests[i] > 0) sorted.emplace_back(rests[i], equals[i]);
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    rest_of_all.insert(rest_of_all.end(), sorted.begin(), sorted.end());
  }
  for (const auto& [rest, q] : rest_of_all) {
    if (total <= 0) break;
    const double give = std::min(1.0, total);
    q->share += give;
    total -= give;
  }
  return total;
}

double divide(double total, std::vector<ShareClaim>& queues, double k) {
  double left = total;
  for (ShareClaim& q : queues) {
    const double own = std::min(std::isinf(q.deserved) ? total : q.deserved, wanted(q));
    q.share += own;
    left -= own;
  }
  return left > 0 ? divide_over_quota(left, queues, k) : 0;
}

}  // namespace rehearse::fleet
