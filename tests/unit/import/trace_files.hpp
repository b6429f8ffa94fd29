#pragma once
// Files that a test writes, and traces made by hand.

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include <fmt/format.h>

#include "core/import/traces/job_trace.hpp"

namespace rehearse::testing {

class ScratchFile {
 public:
  explicit ScratchFile(const std::string& text, const std::string& suffix) {
    static std::atomic<int> count{0};
    path_ =
        (std::filesystem::temp_directory_path() / fmt::format("rehearse-{}-{}{}", getpid(), count++, suffix)).string();
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~ScratchFile() { std::filesystem::remove(path_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A rank made of kernels and calls, in seconds.
class HandTrace {
 public:
  explicit HandTrace(int rank, int world = 2) {
    trace.rank = rank;
    trace.world_size = world;
    trace.file = fmt::format("rank{}.json", rank);
  }
  HandTrace& kernel(double begin, double duration, int stream = 0, OperationClass cls = OperationClass::matmul) {
    trace.names.push_back("kernel");
    trace.events.push_back({Seconds{begin}, Seconds{duration}, int(trace.names.size()) - 1, -1, stream, cls});
    return *this;
  }
  HandTrace& call(double begin, double duration, const std::string& op, double bytes, std::int64_t sequence = -1,
                  std::vector<int> members = {0, 1}, int stream = 1) {
    kernel(begin, duration, stream, OperationClass::communication);
    trace.events.back().call = int(trace.calls.size());
    CommunicationCall c;
    c.op = op;
    c.bytes = Bytes{bytes};
    c.sized = bytes > 0;
    c.group = "0";
    c.group_size = int(members.size());
    c.members = std::move(members);
    c.sequence = sequence;
    trace.calls.push_back(std::move(c));
    return *this;
  }
  RankTrace trace;
};

}  // namespace rehearse::testing
