#include "gpu_backend/communicate/net/frame.hpp"

#include <cstring>
#include <random>
#include <stdexcept>

#include <fmt/format.h>

namespace rehearse::net {

namespace {

constexpr std::string_view kMagic = "RHF1";
constexpr std::string_view kAsks = "hsgfwb";

void put(std::string& out, std::uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(number >> shift & 0xFF);
}

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < 4; ++i) out |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << 8 * i;
  return out;
}

/// What every frame of the run begins with.
std::string name_of(const RunName& run) {
  if (run.id.size() > kLongestRunId) throw std::logic_error("a run's id is longer than a frame holds");
  std::string out(kMagic);
  out += run.id;
  out.resize(kMagic.size() + kLongestRunId, '\0');
  put(out, static_cast<std::uint32_t>(run.ranks));
  return out;
}

/// Takes as long wherever they differ, so that a run's id cannot be found byte by byte.
bool same(std::string_view a, std::string_view b) {
  unsigned char differ = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    differ = static_cast<unsigned char>(differ | (a[i] ^ b[i]));
  return differ == 0;
}

}  // namespace

std::string fresh_run_id() {
  std::random_device random;
  std::string out;
  for (int i = 0; i < 4; ++i) out += fmt::format("{:08x}", random());
  return out;
}

std::string encode(const RunName& run, const Frame& frame) {
  if (frame.key.size() > kLongestKey || frame.value.size() > kLongestValue)
    throw std::logic_error("a key or value is longer than the rendezvous takes");
  std::string out = name_of(run);
  out += static_cast<char>(frame.ask);
  put(out, static_cast<std::uint32_t>(frame.key.size()));
  put(out, static_cast<std::uint32_t>(frame.value.size()));
  return out + frame.key + frame.value;
}

Parsed parse(const RunName& run, std::string_view bytes) {
  const std::string name = name_of(run);
  Parsed out;
  if (bytes.substr(0, kMagic.size()) != kMagic.substr(0, bytes.size())) return {Known::garbage, {}, 0};
  if (bytes.size() < kHeadBytes) return out;
  if (!same(bytes.substr(0, name.size()), name)) return {Known::other_run, {}, 0};
  const char ask = bytes[name.size()];
  const std::uint32_t key = number_at(bytes, name.size() + 1), value = number_at(bytes, name.size() + 5);
  if (kAsks.find(ask) == std::string_view::npos || key > kLongestKey || value > kLongestValue)
    return {Known::garbage, {}, 0};
  out.bytes = kHeadBytes + key + value;
  if (bytes.size() < out.bytes) return out;
  out.known = Known::whole;
  out.frame = {static_cast<Ask>(ask), std::string(bytes.substr(kHeadBytes, key)),
               std::string(bytes.substr(kHeadBytes + key, value))};
  return out;
}

}  // namespace rehearse::net
