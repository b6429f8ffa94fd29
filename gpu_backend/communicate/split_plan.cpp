#include "gpu_backend/communicate/split_plan.hpp"

#include <algorithm>
#include <set>
#include <sstream>

namespace rehearse {

std::string to_text(const std::vector<Wanted>& wanted) {
  std::ostringstream out;
  for (const Wanted& w : wanted) {
    out << w.name.size() << ' ' << w.name << ' ' << w.members.size();
    for (const int m : w.members) out << ' ' << m;
    out << '\n';
  }
  return out.str();
}

std::vector<Wanted> wanted_from(const std::string& text) {
  std::istringstream in(text);
  std::vector<Wanted> out;
  std::size_t length = 0;
  while (in >> length) {
    Wanted w;
    w.name.resize(length);
    in.get();
    in.read(w.name.data(), static_cast<std::streamsize>(length));
    std::size_t members = 0;
    in >> members;
    w.members.resize(members);
    for (int& m : w.members) in >> m;
    out.push_back(std::move(w));
  }
  return out;
}

std::vector<std::vector<Wanted>> rounds_of(const std::vector<std::vector<Wanted>>& of_rank) {
  std::set<Wanted> all;
  for (const auto& wishes : of_rank) all.insert(wishes.begin(), wishes.end());
  std::vector<std::vector<Wanted>> out;
  std::vector<std::set<int>> busy;
  for (const Wanted& w : all) {
    std::size_t round = 0;
    const auto takes_part = [&](int m) { return busy[round].contains(m); };
    while (round < out.size() && std::any_of(w.members.begin(), w.members.end(), takes_part)) ++round;
    if (round == out.size()) out.emplace_back(), busy.emplace_back();
    out[round].push_back(w);
    busy[round].insert(w.members.begin(), w.members.end());
  }
  return out;
}

}  // namespace rehearse
