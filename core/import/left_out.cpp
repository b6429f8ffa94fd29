// In place of this module in a build for browsers, which has no files to bring in: XML, YAML and compression are read
// by libraries that such a build is without. No file is a trace.

#include "core/base/error.hpp"
#include "core/import/traces/measured_workload.hpp"
#include "core/import/traces/read_trace.hpp"

namespace rehearse {

std::vector<RankTrace> read_trace(const std::string& path, const TraceLimits&) {
  throw Error(ErrorKind::unavailable, "this build reads no traces", path, "the program of ./bootstrap build does");
}

bool is_trace(const std::string&) { return false; }
bool is_measured_workload(const std::string&) { return false; }

}  // namespace rehearse
